import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from shoal.tasks.score import activated, shares, sigmoid


@pytest.fixture
def words() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


@pytest.mark.parametrize("room", [0, 1, 2, 7, 8])
def test_texts_share_their_room_as_the_tokenizers_library_has_it(
    words: Tokenizer, room: int
) -> None:
    words.enable_truncation(room, strategy="longest_first")
    for kept in range(10):
        for cut in range(10):
            pair = words.encode("a " * kept, "a " * cut).sequence_ids
            assert shares(kept, cut, room) == (pair.count(0), pair.count(1)), (kept, cut)


def test_the_query_is_kept_and_the_document_cut() -> None:
    assert shares(4, 100, 10) == (4, 6)
    assert shares(100, 3, 10) == (7, 3)
    assert shares(100, 100, 11) == (5, 6)


def test_scores_of_logits() -> None:
    logits = np.array([-1000.0, -1.0, 0.0, 1.0, 1000.0], np.float32)
    assert activated(logits, "identity") is logits
    scores = activated(logits, "sigmoid")
    assert scores.dtype == "float32"
    np.testing.assert_allclose(scores, [0.0, 0.26894143, 0.5, 0.7310586, 1.0], rtol=1e-6)
    assert np.isnan(sigmoid(np.array([np.nan]))).all()

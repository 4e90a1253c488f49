import numpy as np

from shoal.tasks.score import activated, shares, sigmoid


def test_the_query_is_kept_and_the_document_cut() -> None:
    assert shares(4, 5, 10) == (4, 5)
    assert shares(4, 100, 10) == (4, 6)
    assert shares(9, 100, 10) == (9, 1)


def test_a_query_without_room_for_a_document_is_cut_to_half() -> None:
    assert shares(10, 0, 10) == (10, 0)
    assert shares(10, 100, 10) == (5, 5)
    assert shares(100, 3, 10) == (7, 3)
    assert shares(100, 100, 11) == (6, 5)


def test_scores_of_logits() -> None:
    logits = np.array([-1000.0, -1.0, 0.0, 1.0, 1000.0], np.float32)
    assert activated(logits, "identity") is logits
    scores = activated(logits, "sigmoid")
    assert scores.dtype == "float32"
    np.testing.assert_allclose(scores, [0.0, 0.26894143, 0.5, 0.7310586, 1.0], rtol=1e-6)
    assert np.isnan(sigmoid(np.array([np.nan]))).all()

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer

from shoal.runtimes.candle.spelling import spelled, tokenizer

#: More than any model of the catalog has; the characters around the gap of surrogates are among them.
VOCABULARY = 262_400


@pytest.fixture(scope="module")
def reader() -> Tokenizer:
    return Tokenizer.from_buffer(tokenizer(VOCABULARY))


def test_ids_are_read_as_they_were_written(reader: Tokenizer) -> None:
    every = np.arange(VOCABULARY, dtype=np.int32)
    shuffled = np.random.default_rng(3).permutation(every)
    for ids in (every, shuffled, every[:1], every[:0]):
        text = spelled(ids)
        assert len(text) == len(ids)
        assert reader.encode(text).ids == ids.tolist()


def test_nothing_is_added_to_a_text_and_none_are_types_of_a_second_one(reader: Tokenizer) -> None:
    read = reader.encode(spelled(np.array([101, 0, 102], np.int32)))
    assert (read.ids, read.type_ids, read.attention_mask) == ([101, 0, 102], [0] * 3, [1] * 3)

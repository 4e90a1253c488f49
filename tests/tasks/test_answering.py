from __future__ import annotations

import pytest

from shoal.catalog.tasks import Dense, EncodeTask, GenerateTask, Sparse, Tasks
from shoal.tasks.answering import ITEM_OVERHEAD_BYTES, answer_size
from shoal.values import EncodeParams, GenerateParams

TEXTS = Tasks(EncodeTask(Dense(64), Sparse()))


@pytest.mark.parametrize(
    ("params", "bytes_"),
    [
        (EncodeParams(), 256),
        (EncodeParams(dtype="binary"), 8),
        (EncodeParams(dimensions=16), 64),
        (EncodeParams(("dense", "sparse")), 256 + 2048),
    ],
)
def test_vectors_take_what_was_asked_of_them(params: EncodeParams, bytes_: int) -> None:
    assert answer_size(params, TEXTS, 256).item_bytes == ITEM_OVERHEAD_BYTES + bytes_


@pytest.mark.parametrize(
    ("asked", "said", "tokens"), [(8, 20, 8), (None, 20, 20), (None, None, 256), (999, 20, 256)]
)
def test_a_text_takes_what_it_may_become(asked: int | None, said: int | None, tokens: int) -> None:
    tasks = Tasks(generate=GenerateTask(max_new_tokens=said))
    size = answer_size(GenerateParams(max_tokens=asked), tasks, 256)
    assert size.item_bytes == ITEM_OVERHEAD_BYTES + 4 * tokens
    told = answer_size(GenerateParams(max_tokens=asked, logprobs=1), tasks, 256)
    assert told.item_bytes > size.item_bytes + 64 * tokens

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.errors import InvalidRequest
from shoal.runtimes.batch import Beginning, read, size_of
from shoal.wire.arrays import Array, to_wire
from shoal.wire.socket import Run


def ints(*values: int) -> Array:
    return to_wire(np.array(values, np.int32))


def batch(**changes: Any) -> Run:
    """Two items, of two tokens and of one."""
    fields: dict[str, Any] = {"tokens": ints(1, 2, 3), "lengths": ints(2, 1)}
    return Run(1, "m", ["dense"], **(fields | changes))


def some(dtype: type[np.generic], *shape: int) -> Array:
    values: NDArray[Any] = np.zeros(shape, dtype)
    return to_wire(values)


def test_items_are_read_as_they_came() -> None:
    said = read(batch(splits=ints(1, 0), seen=ints(2, 1), marks=some(np.uint8, 3)))
    assert (said.tokens.tolist(), said.lengths.tolist()) == ([1, 2, 3], [2, 1])
    assert said.splits is not None and said.splits.tolist() == [1, 0]
    assert said.seen is not None and said.seen.tolist() == [2, 1]
    assert said.marks is not None and said.marks.tolist() == [0, 0, 0]
    assert said.inputs is said.beginnings is None


def test_how_texts_of_sound_begin() -> None:
    one, other = read(batch(begins=[ints(5, -1), ints()])).beginnings or []
    assert (one, other) == (Beginning((5, -1)), Beginning())
    one, other = read(batch(temperatures=to_wire(np.array([0.5, -1], np.float32)))).beginnings or []
    assert (one, other) == (Beginning((), 0.5), Beginning())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokens": None}, "'m' takes tokens and their lengths, and none came"),
        ({"lengths": None}, "'m' takes tokens and their lengths, and none came"),
        ({"lengths": ints(1, 2, 3)}, "counts that add up to the 3 tokens"),
        ({"lengths": ints(4, -1)}, "counts that add up to the 3 tokens"),
        ({"tokens": some(np.float32, 3)}, r"tokens must be int32 of one dimension, not float32"),
        ({"tokens": some(np.int32, 1, 3)}, r"tokens must be int32 .* of shape \(1, 3\)"),
        ({"splits": ints(1)}, "splits must be one an item, of 2, and inside its tokens"),
        ({"splits": ints(1, 2)}, "splits must be one an item"),
        ({"seen": ints(-1, 0)}, "seen must be one an item"),
        ({"marks": some(np.uint8, 2)}, "2 marks came with 3 tokens"),
        ({"marks": ints(0, 0, 0)}, "marks must be uint8"),
        ({"inputs": [some(np.uint8, 2, 2, 3)]}, "1 inputs came with 2 lengths"),
        ({"begins": [ints(5)]}, "1 beginnings and 2 temperatures came with 2 items"),
    ],
)
def test_a_batch_that_makes_no_sense(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        read(batch(**changes))


def test_items_that_are_none_of_the_models() -> None:
    items = read(batch(tokens=ints(1, 9, 3, 3, -1), lengths=ints(2, 0, 2, 1)))
    failed = items.unfit("m", 1, 9)
    assert {item: error.code for item, error in failed.items()} == {
        0: "invalid_item",
        2: "too_many_tokens",
        3: "invalid_item",
    }
    assert "token id 9; m knows 0 to 8" in failed[0].message
    assert "2 tokens; m takes 1" in failed[2].message
    assert "has tokens; m takes none" in items.unfit("m", 2, 0)[0].message


def test_how_large_a_batch_is() -> None:
    assert size_of(batch()) == "2 items of 3 tokens"
    assert size_of(Run(1, "m", [], texts=["a", "b"])) == "2 items"
    assert size_of(Run(1, "m", [])) == "0 items"

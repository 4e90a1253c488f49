from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.errors import ErrorInfo, ProtocolError
from shoal.gateway.replies import Answer, ItemAnswer, PartJoiner, items_of
from shoal.gateway.units import Span
from shoal.tasks.reading import Size
from shoal.wire.arrays import to_wire
from shoal.wire.queue import Reply, ReplyPart


def part(number: int, data: bytes, worker: str = "w", unit: str = "u", parts: int = 2) -> ReplyPart:
    return ReplyPart(unit, worker, number, parts, data)


def dense_of(item: ItemAnswer) -> NDArray[Any]:
    row = item.vectors["dense"]
    assert isinstance(row, np.ndarray)
    return row


def test_parts_are_joined_in_their_order() -> None:
    joiner = PartJoiner()
    assert joiner.add(part(1, b"world")) is None
    assert joiner.add(part(1, b"world")) is None
    assert joiner.add(part(0, b"hello ")) == b"hello world"
    assert joiner.bytes == 0


def test_twenty_megabytes_come_together_in_any_order() -> None:
    data = random.Random(1).randbytes(20_000_123)
    pieces = [data[start : start + (1 << 20)] for start in range(0, len(data), 1 << 20)]
    parts = [part(number, piece, parts=len(pieces)) for number, piece in enumerate(pieces)]
    for order in (parts, parts[::-1], random.Random(2).sample(parts, len(parts))):
        joiner = PartJoiner()
        joined = [joiner.add(piece) for piece in order]
        assert joined[:-1] == [None] * (len(parts) - 1)
        assert joined[-1] == data
        assert joiner.bytes == 0


@pytest.mark.parametrize("sizes", [(3, 2, 1), (3, 3, 4)])
def test_parts_of_odd_sizes_are_refused(sizes: tuple[int, ...]) -> None:
    joiner = PartJoiner()
    with pytest.raises(ProtocolError):
        for number, size in enumerate(sizes):
            joiner.add(part(number, b"x" * size, parts=3))


def test_the_parts_of_two_workers_are_not_mixed() -> None:
    joiner = PartJoiner()
    joiner.add(part(0, b"a", worker="one"))
    assert joiner.add(part(1, b"B", worker="two")) is None
    assert joiner.add(part(1, b"b", worker="one")) == b"ab"


def test_memory_is_bounded_by_dropping_the_oldest() -> None:
    joiner = PartJoiner(most_bytes=10)
    joiner.add(part(0, b"12345678", unit="old"))
    joiner.add(part(0, b"1234", unit="new"))
    assert joiner.bytes == 4
    assert joiner.add(part(1, b"x", unit="new")) == b"1234x"


def test_parts_go_with_their_request() -> None:
    joiner = PartJoiner()
    joiner.add(part(0, b"a", unit="r.0"))
    joiner.add(part(0, b"b", unit="s.0"))
    joiner.forget(["r.0", "r.1"])
    assert joiner.bytes == 1


@pytest.mark.parametrize(("number", "parts"), [(2, 2), (-1, 2), (0, 0), (0, 1 << 30)])
def test_impossible_numbers_are_refused(number: int, parts: int) -> None:
    with pytest.raises(ProtocolError):
        PartJoiner().add(part(number, b"", parts=parts))


def test_rows_go_to_the_items_that_did_not_fail() -> None:
    rows = to_wire(np.array([[1.0], [3.0]], dtype=np.float32))
    error = ErrorInfo("too_many_tokens", "too long", 400)
    reply = Reply("u", "w", "a", [5, 0, 7], [2], {1: error}, {"dense": rows})
    items = items_of(Answer(Span(10, 13, Size(9, 3)), reply))
    assert [item.position for item in items] == [10, 11, 12]
    assert [item.error for item in items] == [None, error, None]
    assert [dense_of(item).tolist() for item in items if not item.error] == [[1.0], [3.0]]
    assert [item.truncated for item in items] == [False, False, True]


def test_a_reply_that_does_not_add_up_is_refused() -> None:
    rows = to_wire(np.zeros((1, 4), dtype=np.float32))
    with pytest.raises(ProtocolError, match="2 items"):
        items_of(
            Answer(Span(0, 2, Size(9, 2)), Reply("u", "w", "a", [1, 1], outputs={"dense": rows}))
        )

from __future__ import annotations

import asyncio

import msgspec
import pytest

from shoal.errors import (
    DeadlineExceeded,
    ErrorInfo,
    ProtocolError,
    ReaderTooSlow,
    RequestCancelled,
    StreamBroken,
)
from shoal.gateway.feed import Feed, Growth
from shoal.gateway.replies import Answer
from shoal.gateway.units import Span
from shoal.tasks.generate.answer import Said
from shoal.tasks.reading import Size
from shoal.wire.objects import Generation
from shoal.wire.queue import Piece, Reply

SOON_S = 5.0


def piece(text: str, at: int) -> Piece:
    return Piece("u.0", "w", 0, at, text)


def ended(item: int, text: str) -> Answer:
    packed = msgspec.msgpack.encode(Generation(text, "stop", 3, 2))
    return answer(item, Reply("u.0", "w", "ack", [3], objects=[packed]))


def answer(item: int, reply: Reply) -> Answer:
    return Answer(Span(item, item + 1, Size(1, 1)), reply)


async def test_what_was_not_taken_is_one_growth_an_item() -> None:
    feed = Feed(2, 1000)
    feed.add(1, piece("b", 0))
    feed.add(0, piece("Once ", 0))
    feed.add(0, piece("upon", 5))
    assert await feed.next(SOON_S) == [Growth(1, [Said("b")]), Growth(0, [Said("Once upon")])]
    feed.add(0, piece(" a", 9))
    feed.end(ended(0, "Once upon a time"))
    (growth,) = await feed.next(SOON_S)
    assert (growth.item, growth.text) == (0, " a time")
    assert growth.whole == Generation("Once upon a time", "stop", 3, 2)
    feed.end(ended(1, "b"))
    (growth,) = await feed.next(SOON_S)
    assert (growth.text, growth.error) == ("", None)
    assert feed.over
    assert len(feed.answers) == 2


async def test_whoever_asks_waits_for_what_comes_and_not_for_ever() -> None:
    feed = Feed(1, 1000)
    assert await feed.next(0.001) == []
    waiting = asyncio.create_task(feed.next(SOON_S))
    await asyncio.sleep(0)
    assert not waiting.done()
    feed.add(0, piece("Once", 0))
    assert await waiting == [Growth(0, [Said("Once")])]
    feed.add(0, piece("Once", 0))  # again, by another worker
    assert await feed.next(0.001) == []


async def test_an_item_that_fails_ends_with_its_error() -> None:
    feed = Feed(1, 1000)
    error = ErrorInfo("compute_failed", "no", 500)
    feed.end(answer(0, Reply("u.0", "w", "ack", [0], errors={0: error})))
    (growth,) = await feed.next(SOON_S)
    assert growth.error == error
    assert feed.over
    feed.add(0, piece("late", 0))
    assert await feed.next(0.001) == []


async def test_more_than_may_wait_ends_it_and_reading_makes_room() -> None:
    feed = Feed(1, 10)
    feed.add(0, piece("x" * 10, 0))
    await feed.next(SOON_S)
    feed.add(0, piece("y" * 10, 10))
    with pytest.raises(ReaderTooSlow, match="more than 10 bytes"):
        feed.add(0, piece("z", 20))
    with pytest.raises(ReaderTooSlow):
        await feed.next(SOON_S)
    feed.add(0, piece("after", 21))


async def test_what_the_whole_brings_is_not_counted() -> None:
    """It is there in any case; only pieces are more than a caller must be held."""
    feed = Feed(1, 10)
    feed.end(ended(0, "x" * 1000))
    (growth,) = await feed.next(SOON_S)
    assert len(growth.text) == 1000


async def test_the_first_failure_counts() -> None:
    feed = Feed(1, 1000)
    feed.add(0, piece("Once", 0))
    feed.fail(DeadlineExceeded("late"))
    feed.fail(RequestCancelled("gone"))
    with pytest.raises(DeadlineExceeded):
        await feed.next(SOON_S)


@pytest.mark.parametrize(
    ("text", "kind"), [("Twice", StreamBroken), (None, ProtocolError)], ids=["another", "none"]
)
async def test_a_whole_that_does_not_fit_fails_the_request(
    text: str | None, kind: type[Exception]
) -> None:
    feed = Feed(1, 1000)
    feed.add(0, piece("Once", 0))
    nothing = answer(0, Reply("u.0", "w", "ack", [3], objects=[b"\x01"]))
    feed.end(nothing if text is None else ended(0, text))
    with pytest.raises(kind):
        await feed.next(SOON_S)

"""What comes of a request as server-sent events: when the answer begins, how it goes on and ends.

Decides that a request which fails before anything came has its error's own status, that a silent stream
has a comment now and then, and that an error in a stream is its last event. What events say is the routes'.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol

import msgspec

from shoal.errors import ErrorInfo, RequestCancelled, ShoalError
from shoal.gateway.asking import Question, stream
from shoal.gateway.envelope import Envelope, item_failed
from shoal.gateway.feed import Growth
from shoal.gateway.http import EventStream, Request, Response
from shoal.gateway.service import Gateway

#: A comment, which every reader of events skips.
BEAT = b": still at it\n\n"
DONE = b"data: [DONE]\n\n"


class Events(Protocol):
    """How a route tells what comes."""

    def begin(self) -> bytes:
        """What comes before anything else."""
        ...

    def grown(self, growth: Growth) -> bytes:
        """An item has more text, or ended."""
        ...

    def end(self) -> bytes:
        """All items ended."""
        ...

    def failed(self, error: ErrorInfo) -> bytes:
        """The request failed; nothing comes after it."""
        ...


class Failing(msgspec.Struct, frozen=True):
    """What a failed item means where its request fails with it: `where` names it."""

    where: str
    envelope: Envelope


def event(data: Any, name: str = "") -> bytes:
    """One event, its data as JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return b"%bdata: %b\n\n" % (head, msgspec.json.encode(data))


async def event_stream(
    gateway: Gateway,
    request: Request,
    question: Question,
    events: Events,
    failing: Failing | None = None,
) -> EventStream | Response:
    """The answer of a streamed request, once anything came of it or it took a while.

    `failing`: a failed item fails the request; None: it is told as the others are.
    Raises as `asking.stream`, and in place of a stream of nothing but an error.
    """
    source = _grown(gateway, request, question)
    first = await anext(source)
    if failing is not None and (error := _error_in(first)) is not None:
        await source.aclose()
        return item_failed(error, failing.where, failing.envelope)
    return EventStream(_written(request, source, first, events, failing))


async def _grown(
    gateway: Gateway, request: Request, question: Question
) -> AsyncGenerator[list[Growth]]:
    """What came, each time something did; nothing, each time that is long ago."""
    beat_s = gateway.settings.stream_beat_s
    with stream(gateway, request, question) as feed:
        while not feed.over:
            yield await feed.next(beat_s)


async def _written(
    request: Request,
    source: AsyncGenerator[list[Growth]],
    first: list[Growth],
    events: Events,
    failing: Failing | None,
) -> AsyncGenerator[bytes]:
    async with aclosing(source):
        try:
            yield events.begin() + _events(first, events)
            async for growths in source:
                if failing is not None and (error := _error_in(growths)) is not None:
                    request.failure = error
                    break
                yield _events(growths, events)
        except RequestCancelled as gone:
            request.failure = gone.info
            return  # nobody reads
        except ShoalError as error:
            request.failure = error.info
        if request.failure is None:
            yield events.end()
        else:
            yield events.failed(request.failure)


def _events(growths: list[Growth], events: Events) -> bytes:
    return b"".join([events.grown(growth) for growth in growths]) if growths else BEAT


def _error_in(growths: list[Growth]) -> ErrorInfo | None:
    return next((g.error for g in growths if g.error is not None), None)

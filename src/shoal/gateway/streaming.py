"""What comes of a request as server-sent events: when the answer begins, how it goes on and ends.

Decides that a request which fails before anything came has its error's own status, that a silent stream
has a comment now and then, and that an error in a stream is its last event. What events say is the routes'.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

import msgspec

from shoal.errors import ErrorInfo, RequestCancelled, ShoalError
from shoal.gateway.asking import Answers, Question, refusal, stream
from shoal.gateway.envelope import Envelope
from shoal.gateway.feed import Growth
from shoal.gateway.request import Request
from shoal.gateway.response import EventStream, Response
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
    """What a failed item means where its request fails with it; as `asking.refusal` has it."""

    named: str
    envelope: Envelope
    option: Callable[[str], str] = str

    def refusal(self, answers: Answers) -> Response | None:
        """The response of a request with a bad item; None if none is bad."""
        return refusal(answers, self.named, self.envelope, self.option)


class _ItemFailed(Exception):
    """An item of a request that fails with it."""

    def __init__(self, answers: Answers, error: ErrorInfo) -> None:
        super().__init__(error.message)
        self.answers = answers
        self.error = error


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
    source = _grown(gateway, request, question, failing is not None)
    try:
        first = await anext(source)
    except _ItemFailed as failed:
        response = None if failing is None else failing.refusal(failed.answers)
        assert response is not None, "an item failed"
        return response
    return EventStream(_written(request, source, first, events))


async def _grown(
    gateway: Gateway, request: Request, question: Question, fails: bool
) -> AsyncGenerator[list[Growth]]:
    """What came, each time something did; nothing, each time that is long ago.

    Raises `_ItemFailed` where the request `fails` with its items.
    """
    beat_s = gateway.settings.stream_beat_s
    with stream(gateway, request, question) as feed:
        while not feed.over:
            growths = await feed.next(beat_s)
            error = next((g.error for g in growths if g.error is not None), None)
            if fails and error is not None:
                raise _ItemFailed(Answers(feed.answers), error)
            yield growths


async def _written(
    request: Request,
    source: AsyncGenerator[list[Growth]],
    first: list[Growth],
    events: Events,
) -> AsyncGenerator[bytes]:
    async with aclosing(source):
        try:
            yield events.begin() + _events(first, events)
            async for growths in source:
                yield _events(growths, events)
        except RequestCancelled as gone:
            request.failure = gone.info
            return  # nobody reads
        except ShoalError as error:
            request.failure = error.info
        except _ItemFailed as failed:
            request.failure = failed.error
        if request.failure is None:
            yield events.end()
        else:
            yield events.failed(request.failure)


def _events(growths: list[Growth], events: Events) -> bytes:
    return b"".join([events.grown(growth) for growth in growths]) or BEAT

"""Closed-loop HTTP load: N connections, each sends its next request when the last one is answered.

Decides nothing about what is sent: request bytes are made beforehand. As little as possible is
done with answers, because the generator shares the machine with what it measures. It runs as a
process of its own (``python -m shoal.bench.load``); `generator` starts one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import cast

import httptools
import msgspec
import uvloop

from shoal.bench.piped import Helper, serve

#: Longest wait for one run's answers after its time: a server that hangs is an error, not a hang.
GRACE_S = 120.0
_LOST = "connection lost"


class Load(msgspec.Struct, frozen=True):
    """What to send. Requests are taken in turns by all connections.

    Attributes:
        requests: whole HTTP/1.1 requests; all of them once, or again and again for `seconds`.
        keep: whether answers' bodies are wanted.
    """

    host: str
    port: int
    requests: list[bytes]
    connections: int
    seconds: float | None = None
    keep: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """What came back.

    Attributes:
        seconds: from the first request to the last answer.
        answered: answers with status 200.
        errors: status (or what went wrong on the connection) -> how often.
        bodies: of all requests, in their order, if they were kept; empty where one failed.
    """

    seconds: float
    answered: int
    p50_ms: float
    p99_ms: float
    errors: dict[str, int] = {}
    bodies: list[bytes] = []

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds


def request(
    host: str, path: str, body: bytes, content_type: str, accept: str, key: str | None = None
) -> bytes:
    """One POST as it goes over the connection."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {content_type}\r\n"
        f"Accept: {accept}\r\nContent-Length: {len(body)}\r\n"
        + (f"Authorization: Bearer {key}\r\n" if key else "")
        + "\r\n"
    )
    return head.encode() + body


def generator() -> Helper[Load, Outcome]:
    """A load generator in a process of its own."""
    return Helper("shoal.bench.load", Outcome)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Nearest-rank percentile of ascending values; not a number if there are none."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class _Run:
    """One load under way: which request is next, and what was seen."""

    def __init__(self, load: Load) -> None:
        self.requests = load.requests
        self.keep = load.keep
        self.latencies: list[float] = []
        self.errors: Counter[str] = Counter()
        self.bodies: list[bytes] = [b""] * len(load.requests) if load.keep else []
        self.ended_at = 0.0
        self._next = 0
        self._count = math.inf if load.seconds else len(load.requests)
        self._until = math.inf
        self._seconds = load.seconds or math.inf

    def begin(self) -> float:
        began = time.perf_counter()
        self._until = began + self._seconds
        return began

    def take(self, now: float) -> int | None:
        """Position of the request to send next; None when all is sent."""
        position = self._next
        if position >= self._count or now >= self._until:
            return None
        self._next += 1
        return position % len(self.requests)


class _Connection(asyncio.Protocol):
    """One connection; `done` is set when it has nothing more to do."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._parser = httptools.HttpResponseParser(self)
        self._sent_at = 0.0
        self._position: int | None = None
        self._body: list[bytes] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send_next(self, now: float) -> None:
        self._position = position = self._run.take(now)
        if position is None:
            self._transport.close()
            return
        self._sent_at = now
        self._transport.write(self._run.requests[position])

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._run.errors[f"not HTTP: {error}"] += 1
            self._position = None
            self._transport.close()

    def on_body(self, body: bytes) -> None:
        if self._run.keep:
            self._body.append(body)

    def on_message_complete(self) -> None:
        run, now = self._run, time.perf_counter()
        run.ended_at = now
        status = self._parser.get_status_code()
        if status == 200:
            run.latencies.append(now - self._sent_at)
            if run.keep and self._position is not None:
                run.bodies[self._position] = b"".join(self._body)
        else:
            run.errors[str(status)] += 1
        self._body.clear()
        self.send_next(now)

    def connection_lost(self, error: Exception | None) -> None:
        if self._position is not None:
            self._run.errors[_LOST] += 1
        if not self.done.done():
            self.done.set_result(None)


async def drive(load: Load) -> Outcome:
    """Connect, send everything, collect what comes back."""
    run = _Run(load)
    loop = asyncio.get_running_loop()
    connections = [
        await loop.create_connection(lambda: _Connection(run), load.host, load.port)
        for _ in range(load.connections)
    ]
    began = run.begin()
    for _, connection in connections:
        connection.send_next(began)
    done = [connection.done for _, connection in connections]
    _, hanging = await asyncio.wait(done, timeout=GRACE_S + (load.seconds or 0.0))
    run.errors["no answer"] += len(hanging)
    for transport, _ in connections:
        transport.abort()
    return _outcome(run, began)


def _outcome(run: _Run, began: float) -> Outcome:
    ordered = sorted(run.latencies)
    return Outcome(
        seconds=max(1e-9, run.ended_at - began),
        answered=len(ordered),
        p50_ms=percentile(ordered, 0.50) * 1e3,
        p99_ms=percentile(ordered, 0.99) * 1e3,
        errors={what: count for what, count in run.errors.items() if count},
        bodies=run.bodies,
    )


if __name__ == "__main__":
    serve(Load, lambda load: uvloop.run(drive(load)))

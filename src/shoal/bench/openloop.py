"""Open-loop HTTP load: every request is sent at its time, whether earlier ones were answered or not.

Callers do not wait for each other, so a server that falls behind meets a queue that grows: that is
what finds its knee. A latency counts from the moment a request was due, so that a generator or a
server that stalls cannot hide it (coordinated omission: Tene, How NOT to Measure Latency, 2015).
It decides nothing about what is sent, and runs as a process of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from typing import cast

import httptools
import msgspec
import uvloop

from shoal.bench.piped import Helper, serve

#: Connections opened before the first request is due; more are opened when all are busy.
_READY_CONNECTIONS = 32
#: Most connections to one gateway; a request that finds none free counts as not answered.
_MOST_CONNECTIONS = 2000


class Arrivals(msgspec.Struct, frozen=True):
    """What to send, and when.

    Attributes:
        targets: (host, port) of the gateways, taken in turns.
        requests: whole HTTP/1.1 requests, made beforehand.
        due_s: seconds from the start, ascending; `which` of the requests is due then.
        patience_s: how long after the last one answers are waited for.
    """

    targets: list[tuple[str, int]]
    requests: list[bytes]
    due_s: list[float]
    which: list[int]
    patience_s: float


class Answered(msgspec.Struct, frozen=True):
    """What came back.

    Attributes:
        latency_s: of each arrival, in their order; None where there was no answer with status 200.
        errors: status (or what went wrong) -> how often.
        late_s: the most that the generator itself was behind.
        began_at: when it began, in seconds since 1970, to be compared with times in logs.
    """

    latency_s: list[float | None]
    errors: dict[str, int]
    late_s: float
    began_at: float = 0.0


def open_generator() -> Helper[Arrivals, Answered]:
    """An open-loop generator in a process of its own."""
    return Helper("shoal.bench.openloop", Answered)


class _Line(asyncio.Protocol):
    """One connection; it has at most one request under way."""

    def __init__(self, run: _Run, free: list[_Line]) -> None:
        self._run = run
        self._free = free
        self._parser = httptools.HttpResponseParser(self)
        self._number: int | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, number: int, request: bytes) -> None:
        self._number = number
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.abort()

    def on_message_complete(self) -> None:
        if self._number is not None:
            self._run.answered(self._number, self._parser.get_status_code())
        self._number = None
        if self._parser.should_keep_alive():
            self._free.append(self)
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self in self._free:
            self._free.remove(self)
        if self._number is not None:
            self._run.lost(self._number)
            self._number = None


class _Run:
    """One load under way."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._free: list[list[_Line]] = [[] for _ in arrivals.targets]
        self._open = [0] * len(arrivals.targets)
        self._lines: list[_Line] = []
        self._began = 0.0
        self.began_at = 0.0
        self._left = len(arrivals.due_s)
        self._connecting: set[asyncio.Task[None]] = set()
        self.latency_s: list[float | None] = [None] * self._left
        self.errors: Counter[str] = Counter()
        self.late_s = 0.0
        self.done = asyncio.Event()

    async def drive(self) -> None:
        """Send everything at its time, then wait for what is still to come."""
        for target in range(len(self._free)):
            for _ in range(_READY_CONNECTIONS):
                self._free[target].append(await self._connect(target))
        self._began, self.began_at = time.perf_counter(), time.time()
        targets = itertools.cycle(range(len(self._free)))
        for number, due_s in enumerate(self._arrivals.due_s):
            wait_s = due_s - self._now()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            self.late_s = max(self.late_s, self._now() - due_s)
            self._send(number, next(targets))
        try:
            await asyncio.wait_for(self.done.wait(), self._arrivals.patience_s)
        except TimeoutError:
            self.errors["no answer"] += self._left
        self._left = 0  # what comes from now on is too late
        for line in self._lines:
            line.transport.abort()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def answered(self, number: int, status: int) -> None:
        if status == 200:
            self.latency_s[number] = self._now() - self._arrivals.due_s[number]
        else:
            self.errors[str(status)] += 1
        self._one_less()

    def lost(self, number: int) -> None:
        if self._left:
            self.errors["connection lost"] += 1
        self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.done.set()

    def _now(self) -> float:
        return time.perf_counter() - self._began

    def _send(self, number: int, target: int) -> None:
        request = self._arrivals.requests[self._arrivals.which[number]]
        if self._free[target]:
            self._free[target].pop().send(number, request)
        elif self._open[target] < _MOST_CONNECTIONS:
            task = asyncio.create_task(self._send_anew(number, target, request))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        else:
            self.errors["too many connections"] += 1
            self._one_less()

    async def _send_anew(self, number: int, target: int, request: bytes) -> None:
        try:
            line = await self._connect(target)
        except OSError:
            self.lost(number)
            return
        line.send(number, request)

    async def _connect(self, target: int) -> _Line:
        self._open[target] += 1
        line = _Line(self, self._free[target])
        host, port = self._arrivals.targets[target]
        await asyncio.get_running_loop().create_connection(lambda: line, host, port)
        self._lines.append(line)
        return line


async def drive(arrivals: Arrivals) -> Answered:
    """Send everything, collect what comes back."""
    run = _Run(arrivals)
    await run.drive()
    errors = {what: count for what, count in run.errors.items() if count}
    return Answered(run.latency_s, errors, run.late_s, run.began_at)


if __name__ == "__main__":
    serve(Arrivals, lambda arrivals: uvloop.run(drive(arrivals)))

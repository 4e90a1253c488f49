"""The load generator (``python -m shoal.bench.generator``): sends a load, tells what came back.

Decides when a request goes over which connection. As little as possible is done with answers,
because it shares the machine with what it measures.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from typing import cast

import httptools
import uvloop

from shoal.bench.load import Arrivals, Load, Outcome, Target
from shoal.bench.piped import serve

#: Longest wait for a closed loop's answers after its time: a server that hangs is an error, not a hang.
GRACE_S = 120.0
#: An open loop's connections to one target before the first request is due; more when all are busy.
_READY_CONNECTIONS = 32
#: Most of them; a request that finds none free counts as not answered.
_MOST_CONNECTIONS = 2000


class _Line(asyncio.Protocol):
    """One connection; it has at most one request under way. `target`: which one it leads to."""

    def __init__(self, run: _Run, target: int) -> None:
        self.target = target
        self.transport: asyncio.Transport
        self._run = run
        self._parser = httptools.HttpResponseParser(self)
        self._number: int | None = None
        self._body: list[bytes] = []

    def send(self, number: int, request: bytes) -> None:
        self._number = number
        self.transport.write(request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._ended(f"not HTTP: {error}")
            self.transport.abort()

    def on_body(self, body: bytes) -> None:
        if self._run.keep:
            self._body.append(body)

    def on_message_complete(self) -> None:
        number, self._number = self._number, None
        body, self._body = b"".join(self._body), []
        if not self._parser.should_keep_alive():
            self.transport.close()
        if number is not None:
            self._run.answered(self, number, self._parser.get_status_code(), body)

    def connection_lost(self, error: Exception | None) -> None:
        self._run.gone(self)
        self._ended("connection lost")

    def _ended(self, why: str) -> None:
        if self._number is not None:
            self._number = None
            self._run.lost(why)


class _Run(ABC):
    """One load under way; how its requests follow each other, its kinds decide."""

    def __init__(self, targets: list[Target], *, keep: bool) -> None:
        self.keep = keep
        self.latency_s: list[float | None] = []
        self.bodies: list[bytes] = []
        self.errors: Counter[str] = Counter()
        self.late_s = 0.0
        self._targets = targets
        self._lines: dict[_Line, None] = {}
        self._since: list[float] = []  # when each request was sent, or due
        self._began = self._ended = 0.0
        self._began_at = 0.0
        self._left = 0
        self._done = asyncio.Event()

    async def connect(self, target: int) -> _Line:
        """Raises `OSError`."""
        host, port = self._targets[target]
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(lambda: _Line(self, target), host, port)
        self._lines[line] = None
        return line

    def begin(self) -> None:
        self._began, self._began_at = time.perf_counter(), time.time()

    def now(self) -> float:
        """Seconds from the start."""
        return time.perf_counter() - self._began

    def expect(self, since: float) -> int:
        """The number of a request whose time counts from then on."""
        self._since.append(since)
        self.latency_s.append(None)
        if self.keep:
            self.bodies.append(b"")
        return len(self._since) - 1

    def answered(self, line: _Line, number: int, status: int, body: bytes) -> None:
        self._ended = self.now()
        if status == 200:
            self.latency_s[number] = self._ended - self._since[number]
            if self.keep:
                self.bodies[number] = body
        else:
            self.errors[str(status)] += 1
        self.free(line)

    @abstractmethod
    def free(self, line: _Line) -> None:
        """A line has nothing under way any more."""

    def gone(self, line: _Line) -> None:
        """A line is closed."""
        self._lines.pop(line, None)

    def lost(self, why: str) -> None:
        """A request will have no answer."""
        if self._left:
            self.errors[why] += 1
        self.one_less()

    def one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._done.set()

    async def finish(self, within_s: float) -> Outcome:
        """Wait for what is still to come, then hang up."""
        try:
            await asyncio.wait_for(self._done.wait(), within_s)
        except TimeoutError:
            self.errors["no answer"] += self._left
        self._left = 0  # what comes from now on is too late
        for line in self._lines:
            line.transport.abort()
        seconds = max(1e-9, self._ended)
        errors = dict(self.errors)
        return Outcome(self._began_at, seconds, self.latency_s, errors, self.late_s, self.bodies)


class _Closed(_Run):
    """Each line sends its next request when the last one is answered."""

    def __init__(self, load: Load) -> None:
        super().__init__(load.targets, keep=load.keep)
        self._load = load

    async def drive(self) -> Outcome:
        load = self._load
        targets = itertools.cycle(range(len(load.targets)))
        lines = [await self.connect(next(targets)) for _ in range(load.connections)]
        self._left = len(lines)
        self.begin()
        for line in lines:
            self.free(line)
        return await self.finish(GRACE_S + (load.seconds or 0.0))

    def free(self, line: _Line) -> None:
        now, sent, load = self.now(), len(self._since), self._load
        over = now >= load.seconds if load.seconds else sent >= len(load.requests)
        if over:
            self.one_less()
        else:
            line.send(self.expect(now), load.requests[sent % len(load.requests)])


class _Open(_Run):
    """Every request at its time, over whatever line is free."""

    def __init__(self, arrivals: Arrivals) -> None:
        super().__init__(arrivals.targets, keep=False)
        self._arrivals = arrivals
        # The line that was free for longest goes first: gateways that share a port all get requests.
        self._free: list[deque[_Line]] = [deque() for _ in arrivals.targets]
        self._open = [0] * len(arrivals.targets)
        self._connecting: set[asyncio.Task[None]] = set()

    async def drive(self) -> Outcome:
        arrivals = self._arrivals
        for target, free in enumerate(self._free):
            free += [await self._connect(target) for _ in range(_READY_CONNECTIONS)]
        self._left = len(arrivals.due_s)
        self.begin()
        targets = itertools.cycle(range(len(self._free)))
        for due_s, which in zip(arrivals.due_s, arrivals.which, strict=True):
            if (wait_s := due_s - self.now()) > 0:
                await asyncio.sleep(wait_s)
            self.late_s = max(self.late_s, self.now() - due_s)
            self._send(self.expect(due_s), arrivals.requests[which], next(targets))
        outcome = await self.finish(arrivals.patience_s)
        await asyncio.gather(*self._connecting, return_exceptions=True)
        return outcome

    def free(self, line: _Line) -> None:
        if not line.transport.is_closing():
            self._free[line.target].append(line)
        self.one_less()

    def _send(self, number: int, request: bytes, target: int) -> None:
        if line := self._free_line(target):
            line.send(number, request)
        elif self._open[target] < _MOST_CONNECTIONS:
            task = asyncio.create_task(self._send_anew(number, request, target))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        else:
            self.lost("too many connections")

    def _free_line(self, target: int) -> _Line | None:
        """A line that the server has not closed meanwhile."""
        free = self._free[target]
        while free:
            if not (line := free.popleft()).transport.is_closing():
                return line
        return None

    async def _send_anew(self, number: int, request: bytes, target: int) -> None:
        try:
            line = await self._connect(target)
        except OSError:
            self.lost("connection lost")
        else:
            line.send(number, request)

    async def _connect(self, target: int) -> _Line:
        self._open[target] += 1
        try:
            return await self.connect(target)
        except OSError:
            self._open[target] -= 1
            raise

    def gone(self, line: _Line) -> None:
        super().gone(line)
        self._open[line.target] -= 1


async def drive(load: Load | Arrivals) -> Outcome:
    """Send everything, collect what comes back."""
    run = _Closed(load) if isinstance(load, Load) else _Open(load)
    return await run.drive()


if __name__ == "__main__":
    serve(Load | Arrivals, lambda load: uvloop.run(drive(load)))

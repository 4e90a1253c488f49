"""Callers that keep asking and check every answer.

Decides when a caller asks again: over another gateway if the connection broke, after `Retry-After`
if the error says that it may. It must not know which processes are harmed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import msgspec

from shoal.bench.questions import BOMB, KINDS, MODEL, Kind, Question

#: Longer than the broker, a worker or a silent connection is away.
DEADLINE_S = 45.0
#: What a response may take beyond its deadline, on a machine whose cores are all busy.
SLACK_S = 5.0


class Tally(msgspec.Struct):
    """What came of a phase's requests of one kind.

    `unasked`: answers that no request waits for, such as a second one. `broken`: connections that
    ended before their answer; the caller asks again elsewhere.
    """

    requests: int = 0
    answered: int = 0
    wrong: int = 0
    unasked: int = 0
    retries: int = 0
    broken: int = 0
    dead: int = 0
    failures: Counter[str] = msgspec.field(default_factory=Counter)
    slowest_s: float = 0.0


def added(tallies: Iterable[Tally]) -> Tally:
    """All of them as one."""
    whole = Tally()
    for one in tallies:
        for field in ("requests", "answered", "wrong", "unasked", "retries", "broken", "dead"):
            setattr(whole, field, getattr(whole, field) + getattr(one, field))
        whole.failures += one.failures
        whole.slowest_s = max(whole.slowest_s, one.slowest_s)
    return whole


class Answer(msgspec.Struct, frozen=True):
    """One HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes


class Line(asyncio.Protocol):
    """One connection to a gateway, one request at a time."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._waiting: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body = b""

    async def connect(self, url: str) -> None:
        """Raises `OSError`."""
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, str(parts.hostname), parts.port or 80)

    async def ask(self, request: bytes, within_s: float) -> Answer:
        """Raises `ConnectionError` if the connection ends first, `TimeoutError`."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await asyncio.wait_for(self._waiting, within_s)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._tally.unasked += 1
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        answer = Answer(self._parser.get_status_code(), self._headers, self._body)
        self._headers, self._body = {}, b""
        if self._waiting is None or self._waiting.done():
            self._tally.unasked += 1
        else:
            self._waiting.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("the connection ended"))


class Callers:
    """Keeps requests of all kinds in flight over all gateways until told to stop.

    `retry`: ask again after errors that say `retryable` and after broken connections.
    """

    def __init__(
        self, urls: list[str], phase: str, *, retry: bool, kinds: Sequence[Kind] = KINDS
    ) -> None:
        self.tallies = {kind.name: Tally() for kind in kinds}
        self._urls = urls
        self._phase = phase
        self._retry = retry
        self._kinds = kinds

    @property
    def requests(self) -> int:
        """How many were begun."""
        return sum(tally.requests for tally in self.tallies.values())

    async def run(self, until: Callable[[], bool]) -> None:
        """Call until `until()`; every request that was begun is waited for."""
        await asyncio.gather(*(self._callers(kind, until) for kind in self._kinds))

    async def _callers(self, kind: Kind, until: Callable[[], bool]) -> None:
        numbers = itertools.count()
        places = range(kind.callers)
        await asyncio.gather(*(self._caller(kind, numbers, place, until) for place in places))

    async def bomb(self) -> None:
        """One request whose middle item kills its runtime: an error for it, two vectors."""
        around = [f"{self._phase} {side}" for side in ("left", "right")]
        tally = self.tallies["texts"]
        tally.requests += 1
        lines: dict[str, Line] = {}
        question = Question(MODEL, [around[0], f"{self._phase} {BOMB}", around[1]])
        items = await self._answer(lines, question, 0, tally)
        _close(lines)
        if items is None:
            return
        tally.answered += 1
        good = Question(MODEL, [*around]).is_right([items[0], items[2]])
        dead = items[1].get("error", {}).get("code") == "dead_lettered"
        tally.wrong += not (good and dead)
        tally.dead += dead

    async def _caller(
        self, kind: Kind, numbers: Iterator[int], place: int, until: Callable[[], bool]
    ) -> None:
        lines: dict[str, Line] = {}
        tally = self.tallies[kind.name]
        while not until():
            question = kind.question(self._phase, next(numbers))
            tally.requests += 1
            began = time.monotonic()
            items = await self._answer(lines, question, place, tally)
            tally.slowest_s = max(tally.slowest_s, time.monotonic() - began)
            if items is not None:
                tally.answered += 1
                tally.wrong += not question.is_right(items)
        _close(lines)

    async def _answer(
        self, lines: dict[str, Line], question: Question, place: int, tally: Tally
    ) -> list[dict[str, Any]] | None:
        """The items of the answer, or None once the caller has given up."""
        end = time.monotonic() + DEADLINE_S
        while True:
            left_s = max(0.1, end - time.monotonic())
            url = self._urls[place % len(self._urls)]
            try:
                answer = await _ask(lines, url, question, left_s, tally)
            except (OSError, TimeoutError) as error:
                lines.pop(url).close()
                tally.broken += 1
                place += 1  # the other gateway
                why, pause_s = type(error).__name__, 0.05
            else:
                if answer.status == 200:
                    items: list[dict[str, Any]] = msgspec.json.decode(answer.body)["items"]
                    return items
                error_ = msgspec.json.decode(answer.body)["error"]
                why = f"{error_['code']}: {error_['message']}"
                pause_s = float(answer.headers.get("retry-after", 0.2))
                if not error_["retryable"]:
                    end = 0.0
            if not self._retry or time.monotonic() > end:
                tally.failures[why] += 1
                return None
            tally.retries += 1
            await asyncio.sleep(min(left_s, pause_s))


async def _ask(
    lines: dict[str, Line], url: str, question: Question, left_s: float, tally: Tally
) -> Answer:
    if url not in lines:
        lines[url] = Line(tally)
        await lines[url].connect(url)
    return await lines[url].ask(question.request(left_s), left_s + SLACK_S)


def _close(lines: dict[str, Line]) -> None:
    for line in lines.values():
        line.close()


async def expires_in_time(url: str, timeout_s: float) -> bool:
    """Whether a request that nobody can answer gets its 504 when its time is up, not later."""
    line = Line(Tally())
    began = time.monotonic()
    with contextlib.closing(line):
        await line.connect(url)
        late = Question(MODEL, ["too late"]).request(timeout_s)
        answer = await line.ask(late, timeout_s + SLACK_S)
    took_s = time.monotonic() - began
    return answer.status == 504 and timeout_s <= took_s + 0.05 and took_s < timeout_s + 1.0

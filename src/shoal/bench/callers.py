"""Callers that check every answer: each text is sent once, and its vector is known beforehand.

Decides what counts as a right answer and when a caller asks again: over another gateway if the
connection broke, after `Retry-After` if the error says that it may. It must not know which
processes are harmed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import msgspec
import numpy as np

from shoal.runtimes.fake import hashing

MODEL = "slow-fake"
DIM = 8
#: The word that kills a runtime, as the model's card says.
BOMB = "bomb"
#: Longer than the broker, a worker or a silent connection is away.
DEADLINE_S = 45.0
#: What a response may take beyond its deadline, on a machine whose cores are all busy.
SLACK_S = 5.0


class Tally(msgspec.Struct):
    """What came of a phase's requests.

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


def expected(text: str) -> hashing.Vectors:
    """The vector the fake runtime must give this text."""
    tokens, lengths = hashing.pack_texts([text])
    (vector,) = hashing.vectors_of(tokens, lengths, DIM, hashing.seed_of(MODEL, "dense"))
    return np.asarray(vector, dtype=np.float32)


def is_right(texts: list[str], items: list[dict[str, Any]]) -> bool:
    """Whether every item has the vector of its own text."""
    return len(items) == len(texts) and all(
        "dense" in item and np.allclose(item["dense"], expected(text), atol=1e-5)
        for item, text in zip(items, texts, strict=True)
    )


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


def request_of(texts: list[str], timeout_s: float) -> bytes:
    """One encode request as it goes over the connection."""
    body = msgspec.json.encode({"items": texts})
    head = (
        f"POST /v1/encode/{MODEL} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
        f"X-Request-Timeout: {timeout_s:.3f}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Callers:
    """Keeps `count` requests in flight over all gateways until told to stop.

    `retry`: ask again after errors that say `retryable` and after broken connections.
    """

    def __init__(self, urls: list[str], phase: str, *, retry: bool, count: int = 32) -> None:
        self.tally = Tally()
        self._urls = urls
        self._phase = phase
        self._retry = retry
        self._count = count
        self._numbers = iter(range(10**9))

    async def run(self, until: Callable[[], bool]) -> Tally:
        """Call until `until()`; every request that was begun is waited for."""
        await asyncio.gather(*(self._caller(place, until) for place in range(self._count)))
        return self.tally

    async def bomb(self) -> None:
        """One request whose middle item kills its runtime: an error for it, two vectors."""
        texts = [f"{self._phase} {side}" for side in ("left", BOMB, "right")]
        self.tally.requests += 1
        lines: dict[str, Line] = {}
        items = await self._answer(lines, texts, 0)
        _close(lines)
        if items is None:
            return
        self.tally.answered += 1
        good = is_right([texts[0], texts[2]], [items[0], items[2]])
        dead = items[1].get("error", {}).get("code") == "dead_lettered"
        self.tally.wrong += not (good and dead)
        self.tally.dead += dead

    async def _caller(self, place: int, until: Callable[[], bool]) -> None:
        lines: dict[str, Line] = {}
        while not until():
            number = next(self._numbers)
            texts = [f"{self._phase} {number}.{i}" for i in range(1 + number % 3)]
            self.tally.requests += 1
            began = time.monotonic()
            items = await self._answer(lines, texts, place)
            self.tally.slowest_s = max(self.tally.slowest_s, time.monotonic() - began)
            if items is not None:
                self.tally.answered += 1
                self.tally.wrong += not is_right(texts, items)
        _close(lines)

    async def _answer(
        self, lines: dict[str, Line], texts: list[str], place: int
    ) -> list[dict[str, Any]] | None:
        """The items of the answer, or None once the caller has given up."""
        end = time.monotonic() + DEADLINE_S
        while True:
            left_s = max(0.1, end - time.monotonic())
            url = self._urls[place % len(self._urls)]
            try:
                answer = await self._ask(lines, url, texts, left_s)
            except (OSError, TimeoutError) as error:
                lines.pop(url).close()
                self.tally.broken += 1
                place += 1  # the other gateway
                why, pause_s = type(error).__name__, 0.05
            else:
                if answer.status == 200:
                    items: list[dict[str, Any]] = msgspec.json.decode(answer.body)["items"]
                    return items
                error_ = msgspec.json.decode(answer.body)["error"]
                why, pause_s = error_["code"], float(answer.headers.get("retry-after", 0.2))
                if not error_["retryable"]:
                    end = 0.0
            if not self._retry or time.monotonic() > end:
                self.tally.failures[why] += 1
                return None
            self.tally.retries += 1
            await asyncio.sleep(min(left_s, pause_s))

    async def _ask(
        self, lines: dict[str, Line], url: str, texts: list[str], left_s: float
    ) -> Answer:
        if url not in lines:
            lines[url] = Line(self.tally)
            await lines[url].connect(url)
        return await lines[url].ask(request_of(texts, left_s), left_s + SLACK_S)


def _close(lines: dict[str, Line]) -> None:
    for line in lines.values():
        line.close()


async def expires_in_time(url: str, timeout_s: float) -> bool:
    """Whether a request that nobody can answer gets its 504 when its time is up, not later."""
    line = Line(Tally())
    began = time.monotonic()
    with contextlib.closing(line):
        await line.connect(url)
        answer = await line.ask(request_of(["too late"], timeout_s), timeout_s + SLACK_S)
    took_s = time.monotonic() - began
    return answer.status == 504 and timeout_s <= took_s + 0.05 and took_s < timeout_s + 1.0

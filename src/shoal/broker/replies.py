"""Answers to requests: one subscription, a token per request, one timer for all deadlines.

nats-py's own `request` costs a future with a callback, a random token and a timer each; a gateway
publishes thousands of units a second, each of which is a request for its publish ack.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from shoal.broker.client import Client
from shoal.errors import ShoalError, Unavailable

R = TypeVar("R")
Decode = Callable[[bytes], R]

_SWEEP_S = 0.5


class Replies:
    """Requests in flight on one connection."""

    def __init__(self, client: Client, inbox: str, timeout_s: float) -> None:
        self._client = client
        self._prefix = f"{inbox}."
        self._timeout_s = timeout_s
        self._last = 0
        # In the order of their deadlines, since all have the same timeout.
        self._open: dict[str, tuple[float, asyncio.Future[Any], Decode[Any]]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        client.listen(f"{inbox}.*", self._answered)

    def request(
        self, subject: str, data: bytes, decode: Decode[R], headers: bytes = b""
    ) -> asyncio.Future[R]:
        """Publish and expect an answer. `decode` makes the result or raises a `ShoalError`.

        Raises what `Client.send_publish` raises; the future fails with `Unavailable` if nobody
        answers, within the timeout or at all.
        """
        loop = asyncio.get_running_loop()
        self._last += 1
        token = str(self._last)
        self._client.send_publish(subject, self._prefix + token, data, headers)
        future: asyncio.Future[R] = loop.create_future()
        self._open[token] = (loop.time() + self._timeout_s, future, decode)
        if self._sweeper is None:
            self._sweeper = loop.call_later(_SWEEP_S, self._sweep)
        return future

    def fail_all(self, error: ShoalError) -> None:
        """Nothing in flight will be answered."""
        waiting, self._open = self._open, {}
        for _, future, _ in waiting.values():
            _fail(future, error)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _answered(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        entry = self._open.pop(subject[len(self._prefix) :], None)
        if entry is None:
            return  # given up before
        _, future, decode = entry
        if future.done():
            return
        if status is not None:
            future.set_exception(
                Unavailable(f"nobody at the broker answers this ({status}); is JetStream on?")
            )
            return
        try:
            future.set_result(decode(data))
        except ShoalError as error:
            future.set_exception(error)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for token, (deadline, future, _) in list(self._open.items()):
            if deadline > now:
                break
            del self._open[token]
            _fail(future, Unavailable(f"the broker did not answer within {self._timeout_s:g} s"))
        self._sweeper = loop.call_later(_SWEEP_S, self._sweep) if self._open else None


def _fail(future: asyncio.Future[Any], error: ShoalError) -> None:
    if not future.done():
        future.set_exception(error)

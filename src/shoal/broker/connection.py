"""One connection to the broker: who we are there, and everything that is sent over it.

It reconnects for ever; while it is away every send fails at once, so that callers can answer
their own callers. It knows JetStream's wire forms but no stream's meaning.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from nats import errors

from shoal.broker import options
from shoal.broker.answers import decoded, sequence, sequence_if_expected
from shoal.broker.base import Handler
from shoal.broker.client import Client
from shoal.broker.refusals import refusal, told
from shoal.broker.replies import Replies
from shoal.errors import PayloadTooLarge, Unavailable
from shoal.settings import CommonSettings

_log = logging.getLogger(__name__)

# A publish ack takes a millisecond; a fail-over of a replicated stream some seconds.
ANSWER_S = 5.0

A = TypeVar("A")


class Connection:
    """A connection with a name; make it with `open`."""

    def __init__(
        self,
        name: str,
        on_disconnected: Callable[[], None] | None,
        on_reconnected: Callable[[], None] | None,
    ) -> None:
        self.name = name
        self._client = Client(self._lost, self._regained)
        self._on_disconnected = on_disconnected
        self._on_reconnected = on_reconnected
        self._when_lost: list[Callable[[], None]] = []
        self._opening = True
        self._last_error: Exception | None = None
        self._replies: Replies

    @classmethod
    async def open(
        cls,
        settings: CommonSettings,
        name: str,
        *,
        on_disconnected: Callable[[], None] | None = None,
        on_reconnected: Callable[[], None] | None = None,
        wait_s: float = 5.0,
    ) -> Connection:
        """Connect, trying for `wait_s`.

        Raises:
            ConfigError: no URL, or a file of credentials or certificates that cannot be read.
            BrokerError: the broker refuses us.
            Unavailable: no broker there within `wait_s`.
        """
        servers, how = options.urls(settings), options.options(settings)
        self = cls(name, on_disconnected, on_reconnected)
        self._client.requires_tls = "tls" in how
        try:
            await asyncio.wait_for(
                self._client.connect(
                    servers,
                    name=name,
                    error_cb=self._failed,
                    reconnected_cb=self._client.regained,
                    **how,
                ),
                wait_s,
            )
        except (OSError, errors.Error) as error:  # a TimeoutError is an OSError
            await self._client.abandon()
            raise Unavailable(
                f"cannot reach the broker at {options.redacted(servers)} within {wait_s:g} s: "
                f"{told(self._last_error or error)}; is nats-server running there?"
            ) from None
        except BaseException:
            await self._client.abandon()
            raise
        self._opening = False
        self._replies = Replies(self._client, self.inbox(), ANSWER_S)
        return self

    async def close(self) -> None:
        """Send what waits to be sent, then disconnect; safe to call twice."""
        with contextlib.suppress(errors.Error, OSError):
            if self._client.is_connected:
                await self._client.drain()
        await self._client.abandon()  # does nothing after a drain that went well
        self._drop(Unavailable("this process is shutting down"))

    # --- core NATS ------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._client.is_connected

    @property
    def max_payload(self) -> int:
        """Largest message in bytes, headers included."""
        return self._client.max_payload

    @property
    def url(self) -> str:
        """The server at the other end, without user and password."""
        url = self._client.connected_url
        return options.redacted([url.geturl()]) if url is not None else ""

    @property
    def server_version(self) -> str:
        """Version of the `nats-server` at the other end."""
        return self._client.server_version

    def inbox(self) -> str:
        """A subject that nobody else uses."""
        return self._client.new_inbox()

    def publish(self, subject: str, data: bytes, reply: str = "") -> None:
        """Send. Raises `Unavailable` or `PayloadTooLarge`; nothing is kept for later."""
        self._check_size(len(data))
        self._client.send_publish(subject, reply, data)

    def subscribe(self, subject: str, handler: Handler) -> int:
        """Call `handler` for each message, in order, on the event loop; survives reconnects."""
        return self._client.listen(subject, handler)

    def unsubscribe(self, subscription: int) -> None:
        """Stop at once: messages on their way are dropped."""
        self._client.send_unsubscribe(subscription)
        self._client.forget(subscription)

    async def flush(self) -> None:
        """Wait until the server has got everything sent so far."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._client.ping(done)
        try:
            await asyncio.wait_for(done, ANSWER_S)
        except TimeoutError:
            raise Unavailable(f"the broker did not answer within {ANSWER_S:g} s") from None

    # --- JetStream ------------------------------------------------------------------------------

    def publish_unit(
        self, subject: str, data: bytes, ttl_s: float, message_id: str
    ) -> asyncio.Future[int]:
        """Put a unit on its stream; the future is its sequence there.

        `ttl_s` is rounded up to whole seconds, the broker's unit. After `Unavailable` the unit may
        still be on the queue, as with any lost answer; its reply is then one that nobody awaits.

        Raises, or fails the future with:
            Overloaded: the stream is at its limit.
            Unavailable: disconnected, a jam, JetStream away, or no answer in time.
            PayloadTooLarge: over the broker's message limit.
        """
        ttl = f"Nats-TTL: {max(1, math.ceil(ttl_s))}\r\n"
        return self._store(subject, data, f"{ttl}Nats-Msg-Id: {message_id}\r\n")

    def store(self, subject: str, data: bytes, message_id: str) -> asyncio.Future[int]:
        """Put a message on the stream of `subject`, to stay there for as long as that keeps it.

        The future is its sequence; it fails, and this raises, as `publish_unit`.
        """
        return self._store(subject, data, f"Nats-Msg-Id: {message_id}\r\n")

    def put(
        self, subject: str, data: bytes, ttl_s: float, expected: int
    ) -> asyncio.Future[int | None]:
        """Store a message if the last one on `subject` has the sequence `expected` (0: there is none).

        The future is its sequence, None if another one is there; it fails, and this raises, as
        `publish_unit`.
        """
        fields = (
            f"Nats-TTL: {max(1, math.ceil(ttl_s))}\r\n"
            f"Nats-Expected-Last-Subject-Sequence: {expected}\r\n"
        )
        return self._request(subject, data, fields, sequence_if_expected)

    def _store(self, subject: str, data: bytes, fields: str) -> asyncio.Future[int]:
        return self._request(subject, data, fields, sequence)

    def _request(
        self, subject: str, data: bytes, fields: str, decode: Callable[[bytes], A]
    ) -> asyncio.Future[A]:
        headers = f"NATS/1.0\r\n{fields}\r\n".encode()
        self._check_size(len(headers) + len(data))
        return self._replies.request(subject, data, decode, headers)

    async def api(self, subject: str, request: dict[str, Any], answer: type[A]) -> A:
        """Ask ``$JS.API.<subject>``. Raises `Unavailable` if JetStream does not answer."""
        return await self._replies.request(
            f"$JS.API.{subject}",
            msgspec.json.encode(request),
            lambda data: decoded(data, answer),
        )

    def ack(self, delivery_ack: str, reply: str = "") -> None:
        """Done: remove it. With `reply` the server confirms there, for a repeated ack too."""
        self._client.send_publish(delivery_ack, reply, b"+ACK")

    def nak(self, delivery_ack: str, delay_s: float = 0.0) -> None:
        """Give it back, to be delivered again after `delay_s`."""
        nanoseconds = int(delay_s * 1e9)
        payload = b'-NAK {"delay": %d}' % nanoseconds if nanoseconds > 0 else b"-NAK"
        self._client.send_publish(delivery_ack, "", payload)

    def in_progress(self, delivery_ack: str) -> None:
        """Restart its `ack_wait`."""
        self._client.send_publish(delivery_ack, "", b"+WPI")

    def term(self, delivery_ack: str, reason: str = "") -> None:
        """Never deliver it again."""
        self._client.send_publish(delivery_ack, "", f"+TERM {reason}".rstrip().encode())

    # --- for the rest of this package -------------------------------------------------------------

    @property
    def client(self) -> Client:
        """For `Puller`, which handles subscriptions one by one."""
        return self._client

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` at each loss of the connection, before `on_disconnected`."""
        self._when_lost.append(callback)

    def _check_size(self, size: int) -> None:
        if size > self._client.max_payload:
            raise PayloadTooLarge(
                f"a message of {size} bytes is over the broker's limit of "
                f"{self._client.max_payload} (max_payload)"
            )

    async def _failed(self, error: Exception) -> None:
        """nats-py's `error_cb`; what it raises ends the first connect."""
        self._last_error = error
        if not self._opening:
            # While it is away there is one for each try to come back, four a second.
            level = logging.WARNING if self.connected else logging.DEBUG
            _log.log(level, "broker_error", extra=self._fields(error))
        elif (refused := refusal(error)) is not None:
            raise refused

    def _fields(self, error: Exception | None = None) -> dict[str, object]:
        fields: dict[str, object] = {"connection": self.name}
        if error is not None:
            fields["error"] = told(error)
        return {"fields": fields}

    def _lost(self, error: Exception) -> None:
        if self._opening:
            return  # nobody uses it yet; it comes back like any other
        _log.warning("broker_disconnected", extra=self._fields(error))
        self._drop(Unavailable("the connection to the broker was lost", retry_after_s=1.0))
        if self._on_disconnected is not None:
            self._on_disconnected()

    def _drop(self, error: Unavailable) -> None:
        self._replies.fail_all(error)
        for callback in self._when_lost:
            callback()

    def _regained(self) -> None:
        _log.info("broker_reconnected", extra=self._fields())
        if self._on_reconnected is not None:
            self._on_reconnected()

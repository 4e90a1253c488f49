"""nats-py's client with a synchronous way in and out; the only file that knows its internals.

nats-py spends a queue, a task and a header dictionary on every message and lets commands pile up
while it is disconnected. Here a message goes straight from the parser to its handler, a command
straight into the write buffer, and a lost connection drops what was not yet written: whoever
published was already told, so it must not be sent minutes later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from nats import errors
from nats.aio.client import Client as NatsClient
from nats.aio.subscription import Subscription

from shoal.broker.base import Handler
from shoal.errors import ProtocolError, Unavailable

# A payload up to this size is copied into its command: cheaper than three entries to write.
_COPY_BYTES = 4096
# Bytes that may wait for the socket. A broker that takes less than we make for this long is stuck.
_MAX_UNSENT_BYTES = 128 * 1024 * 1024
_CLOSE_S = 1.0
_STATUS_LINE = b"NATS/1.0 "


def status_of(headers: bytes | None) -> str | None:
    """``"503"`` or ``"409 Consumer Deleted"`` from a status message, None for any other."""
    if headers is None or not headers.startswith(_STATUS_LINE):
        return None
    line, _, _ = headers[len(_STATUS_LINE) :].partition(b"\r\n")
    return line.decode("latin-1").strip()


def check_subject(subject: str) -> None:
    """Raise `ProtocolError` unless `subject` can stand in a command line."""
    if not subject or " " in subject or not subject.isprintable():
        raise ProtocolError(f"{subject!r} is not a NATS subject")


class Client(NatsClient):
    """A nats-py client; `on_lost` and `on_regained` are called once per lost connection."""

    def __init__(
        self, on_lost: Callable[[Exception], None], on_regained: Callable[[], None]
    ) -> None:
        super().__init__()
        self._on_lost = on_lost
        self._on_regained = on_regained
        self._handlers: dict[int, Handler] = {}
        self.requires_tls = False

    # --- out ----------------------------------------------------------------------------------

    def send_publish(self, subject: str, reply: str, data: bytes, headers: bytes = b"") -> None:
        """PUB or HPUB. Raises `Unavailable` while disconnected, or if the socket jams."""
        check_subject(subject)
        if reply:
            check_subject(reply)
        size = len(headers) + len(data)
        if headers:
            line = f"HPUB {subject} {reply} {len(headers)} {size}\r\n".encode() + headers
        else:
            line = f"PUB {subject} {reply} {size}\r\n".encode()
        if self._pending_data_size > _MAX_UNSENT_BYTES:
            raise Unavailable(
                f"the broker does not keep up: {self._pending_data_size} bytes wait to be sent to it",
                retry_after_s=1.0,
            )
        if size <= _COPY_BYTES:
            self._write(line + data + b"\r\n")
        else:
            self._write(line, data, b"\r\n")

    def listen(self, subject: str, handler: Handler) -> int:
        """SUB; while disconnected it is only noted, since a reconnect replays subscriptions."""
        check_subject(subject)
        self._sid += 1
        self._subs[self._sid] = Subscription(self, self._sid, subject)
        self._handlers[self._sid] = handler
        if self.is_connected:
            self._write(f"SUB {subject}  {self._sid}\r\n".encode())
        return self._sid

    def send_unsubscribe(self, sid: int) -> None:
        """Tell the server; messages already on their way still reach the handler until `forget`."""
        if self.is_connected:
            self._write(f"UNSUB {sid}\r\n".encode())

    def forget(self, sid: int) -> None:
        """Drop the handler, and do not subscribe again at a reconnect."""
        self._subs.pop(sid, None)
        self._handlers.pop(sid, None)

    def ping(self, future: asyncio.Future[bool]) -> None:
        """PING behind everything sent so far; `future` is done once the server got all of it."""
        self._write(b"PING\r\n")
        self._pongs.append(future)

    @property
    def server_version(self) -> str:
        """As the server reported it; empty before the first connect."""
        return str(self._server_info.get("version", ""))

    async def abandon(self) -> None:
        """Close at once. Bounded, since asyncio may wait for ever after a failed TLS handshake."""
        with contextlib.suppress(errors.Error, OSError):
            await asyncio.wait_for(self.close(), _CLOSE_S)

    def _write(self, *parts: bytes) -> None:
        if not self.is_connected:
            raise Unavailable("the broker is not connected; try again shortly", retry_after_s=1.0)
        self._pending.extend(parts)
        self._pending_data_size += sum(map(len, parts))
        queue = self._flush_queue
        if queue is not None and queue.empty():
            queue.put_nowait(asyncio.get_running_loop().create_future())

    # --- in: overrides of nats-py -----------------------------------------------------------------

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        handler = self._handlers.get(sid)
        if handler is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            handler(data, reply.decode(), status_of(headers), subject.decode())
        except Exception as error:
            # The edge of the read loop: nats-py would stop reading for good, without a word.
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"handler of {subject.decode()} failed", "exception": error}
            )

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        # nats-py writes PING past the commands that wait, so a PONG would prove nothing of them.
        if not self.is_connected:
            raise errors.ConnectionReconnectingError
        self.ping(future or asyncio.get_running_loop().create_future())

    async def _process_pong(self) -> None:
        # nats-py sets the result of a ping that timed out, which stops its read loop.
        self._pings_outstanding = 0
        self._pongs_received += 1
        if self._pongs:
            future = self._pongs.pop(0)
            if not future.done():
                future.set_result(True)

    async def _process_err(self, err_msg: str) -> None:
        # nats-py closes for good on most errors; only a refused subject is harmless, and all other
        # errors end the connection: come back, as the server or its configuration may have changed.
        if "permissions violation" in err_msg:
            await super()._process_err(err_msg)
        else:
            await self._process_op_err(errors.Error(f"nats: {err_msg}"))

    async def _process_op_err(self, e: Exception) -> None:
        was_connected = self.is_connected
        await super()._process_op_err(e)
        if was_connected and not self.is_connected:
            self._pending.clear()
            self._pending_data_size = 0
            self._on_lost(e)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self.requires_tls and not info.get("tls_required"):
            raise errors.SecureConnRequiredError  # else anyone in between could take TLS away
        await super()._process_info(info, initial_connection)

    async def regained(self) -> None:
        """nats-py's `reconnected_cb`."""
        self._on_regained()

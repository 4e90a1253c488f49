"""One HTTP connection: what uvicorn leaves open until a request is known.

Decides how large and how slow the head of a request may be (431, 408), that an offer to switch
protocols is declined by ignoring it (RFC 9110, 7.8), what is answered to bytes that are no
HTTP, and when a caller that does not read its answer is given up. It must not know paths or bodies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from shoal.errors import HeadTimeout, HeadTooLarge, InvalidRequest, ShoalError
from shoal.gateway.asgi import CONNECTION
from shoal.gateway.envelope import error_response
from shoal.gateway.onewrite import OneWriteProtocol

#: Request line and headers; what comes in one read of the socket may pass it.
MAX_HEAD_BYTES = 64 * 1024
#: How long they may take, from the connection's start or their first byte.
HEAD_S = 30.0
#: How often it is looked at how much a caller has taken of its answer, which takes memory.
STALL_S = 60.0
#: Less than this in that time, 17 kB/s, and the caller is given up.
LEAST_TAKEN_BYTES = 1 << 20


class GatewayConnection(OneWriteProtocol):
    """uvicorn's HTTP/1.1 protocol with bounded heads, for clients of any kind."""

    url = b""  # of the request that is read
    _head_timer: asyncio.TimerHandle | None = None
    _in_head = True
    _head_bytes = 0
    _declined = False
    _stall_timer: asyncio.TimerHandle | None = None
    _on_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_S, self._head_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_stall_timer()
        super().connection_lost(exc)
        if self._on_lost is not None:
            self._on_lost()

    @property
    def all_read(self) -> bool:
        """Whether the bodies of all requests that came on it are here."""
        return not self.cycle.more_body

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the caller has closed it, at once if so; only the latest one."""
        self._on_lost = callback
        self.flow.resume_reading()  # a large body paused it, and then nobody hears of the end
        if self.transport.is_closing():
            callback()

    def data_received(self, data: bytes) -> None:
        """Parse; what is left open of a head counts against its bounds."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:  # it reads no path of 64 KiB, either
            if len(self.url) < MAX_HEAD_BYTES:
                self._refuse(InvalidRequest("these bytes are no HTTP/1.1 request"))
            else:
                self._refuse(_too_large())
        except httptools.HttpParserUpgrade as switch:
            self._read_on(data[switch.args[0] :])
        if self._in_head and not self.transport.is_closing():
            self._count_head(len(data))

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(_too_large())
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._head_late)

    def _head_late(self) -> None:
        if self._head_bytes:
            self._refuse(HeadTimeout(f"the headers did not arrive within {HEAD_S:g} s"))
        else:
            self.transport.close()  # nobody has asked anything

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    # --- callers that do not read -----------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall_timer is None:
            self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.cycle is None or self.cycle.response_complete:
            self._stop_stall_timer()

    def _watch_reader(self) -> None:
        self._stall_timer = self.loop.call_later(STALL_S, self._look_at_reader, self._taken_bytes())

    def _look_at_reader(self, before: int) -> None:
        """End the connection if too little was taken since it was looked at `before`."""
        self._stall_timer = None
        if self.flow.write_paused:
            if self._taken_bytes() - before < LEAST_TAKEN_BYTES:
                self.transport.abort()
            else:
                self._watch_reader()

    def _taken_bytes(self) -> int:
        return self.gathering.written - self.transport.get_write_buffer_size()

    def abort(self) -> None:
        """End the connection; what waits to be read is dropped."""
        self.transport.abort()

    async def drained(self) -> None:
        """Return once nearly all that was written has been taken, or the connection is lost."""
        await asyncio.sleep(0)  # what is written goes out at the end of the loop's turn
        if self.flow.write_paused:
            await self.flow.drain()

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    # --- the parser's callbacks -------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CONNECTION: {"connection": self}}
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        # CONNECT looks like a switch too; uvicorn finds no path in it and says so.
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._declined = True
        else:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self._declined:
            super().on_message_complete()

    def _read_on(self, rest: bytes) -> None:
        """Take the request as if it had offered no other protocol; `rest` begins with its body.

        Java's client offers HTTP/2 with each request, and the parser would skip its body.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self._declined = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self.data_received(b"\r\n".join([*lines, b"", rest]))

    # --- refusals ---------------------------------------------------------------------------------

    def _refuse(self, error: ShoalError) -> None:
        """Answer, unless another answer is on its way, and end the connection."""
        if self.transport.is_closing():
            return
        if self._may_answer():
            response = error_response(error.info)
            body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
            self.transport.write(
                b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
                % (STATUS_LINE[error.status], len(body), body)
            )
        self.transport.close()

    def _may_answer(self) -> bool:
        """Whether no answer is on its way, be it one that is refused here before its body was whole."""
        cycle = self.cycle
        if cycle is None or not cycle.more_body:
            return cycle is None or cycle.response_complete
        if cycle.response_started or self.pipeline:
            return False
        cycle.disconnected = True  # its handler hears that the caller is gone, and answers nobody
        cycle.message_event.set()
        return True


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(f"the request line and headers are larger than {MAX_HEAD_BYTES} bytes")

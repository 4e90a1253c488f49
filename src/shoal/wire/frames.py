"""Frames on a socket: a 4-byte big-endian length, then one message of that many bytes.

Pure: bytes go in, frames come out; reading and writing sockets happens elsewhere, and what a
frame says is for `messages` to decode.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from shoal.errors import ProtocolError
from shoal.wire.codec import Message, encode_into
from shoal.wire.memory import unwritten

HEADER_BYTES = 4
#: A batch of 8,192 tokens with 4,096-wide float32 token vectors is 128 MB; twice that is garbage.
MAX_FRAME_BYTES = 256 * 1024 * 1024
#: Frames up to this size share one receive buffer, so that one `recv` brings header, body and
#: often the next frame; each is then copied out (64 KB: about 3 us). Larger ones are received
#: straight into their own memory.
INBOX_BYTES = 64 * 1024

_LENGTH = struct.Struct(">I")


def frame_of(message: Message) -> bytearray:
    """`message` as one frame, header included. Raises `ProtocolError` above the size limit."""
    frame = bytearray(HEADER_BYTES)
    encode_into(message, frame, HEADER_BYTES)
    _LENGTH.pack_into(frame, 0, _checked(len(frame) - HEADER_BYTES))
    return frame


def _checked(length: int) -> int:
    if length > MAX_FRAME_BYTES:
        raise ProtocolError(f"frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
    return length


class FrameReader:
    """Collects received bytes and hands out whole frames.

    `buffer()` returns where to receive the next bytes; `received(n)` says how many came and
    yields the frames completed by them. Every frame owns its memory, so that arrays decoded
    from it may keep viewing it.
    """

    def __init__(self) -> None:
        self._inbox = memoryview(bytearray(INBOX_BYTES))
        self._end = 0  # bytes of the inbox that hold something
        self._large: memoryview | None = None  # the one frame too large for the inbox
        self._filled = 0

    def buffer(self) -> memoryview:
        """Where to receive next; never empty."""
        if self._large is not None:
            return self._large[self._filled :]
        return self._inbox[self._end :]

    def received(self, count: int) -> Iterator[memoryview]:
        """Account for `count` bytes written into `buffer()`; yields the frames now whole.

        It must be exhausted before the next `buffer()`.

        Raises:
            ProtocolError: after the frames before it, a header over the size limit; nothing
                after that can be read.
        """
        if self._large is None:
            self._end += count
            yield from self._cut()
            return
        self._filled += count
        if self._filled == len(self._large):
            frame, self._large = self._large, None
            yield frame

    def _cut(self) -> Iterator[memoryview]:
        """Take whole frames off the inbox and move what is left to its start."""
        start, end, inbox = 0, self._end, self._inbox
        while end - start >= HEADER_BYTES:
            length = _checked(_LENGTH.unpack_from(inbox, start)[0])
            body = start + HEADER_BYTES
            if body + length > end:
                if HEADER_BYTES + length > INBOX_BYTES:
                    self._grow(length, inbox[body:end])
                    start = end
                break
            yield memoryview(bytes(inbox[body : body + length]))
            start = body + length
        self._end = end - start
        if start and self._end:
            inbox[: self._end] = bytes(inbox[start:end])

    def _grow(self, length: int, beginning: memoryview) -> None:
        """Receive the rest of this frame into memory of its own."""
        self._large = unwritten(length)
        self._large[: len(beginning)] = beginning
        self._filled = len(beginning)

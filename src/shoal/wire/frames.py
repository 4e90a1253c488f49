"""Cuts a byte stream into frames: a 4-byte big-endian length, then that many bytes.

Pure: bytes go in, frames come out; reading and writing sockets happens elsewhere.
"""

from __future__ import annotations

import struct

from shoal.errors import ProtocolError

HEADER_BYTES = 4
#: A batch of 8,192 tokens with 4,096-wide float32 token vectors is 128 MB; twice that is garbage.
MAX_FRAME_BYTES = 256 * 1024 * 1024


def header(length: int) -> bytes:
    """The header of a frame of `length` bytes. Raises `ProtocolError` above the limit."""
    if length > MAX_FRAME_BYTES:
        raise ProtocolError(f"frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
    return struct.pack(">I", length)


def length_of(head: bytes | bytearray | memoryview) -> int:
    """Body length from a header. Raises `ProtocolError` above the limit."""
    (length,) = struct.unpack(">I", head)
    if length > MAX_FRAME_BYTES:
        raise ProtocolError(f"frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
    return int(length)


class FrameReader:
    """Collects received bytes and hands out whole frames.

    `buffer()` returns where to receive the next bytes; `received(n)` says how many came and
    returns the frames completed by them. A frame is a `bytearray` of its own, so that arrays
    decoded from it may keep viewing it.
    """

    def __init__(self) -> None:
        self._head = bytearray(HEADER_BYTES)
        self._body: bytearray | None = None
        self._filled = 0

    def buffer(self) -> memoryview:
        target = self._head if self._body is None else self._body
        return memoryview(target)[self._filled :]

    def received(self, count: int) -> bytearray | None:
        """Account for `count` bytes written into `buffer()`; returns a frame once whole."""
        self._filled += count
        if self._body is None:
            if self._filled < HEADER_BYTES:
                return None
            self._body = bytearray(length_of(self._head))
            self._filled = 0
            if self._body:
                return None
        if self._filled < len(self._body):
            return None
        frame, self._body, self._filled = self._body, None, 0
        return frame

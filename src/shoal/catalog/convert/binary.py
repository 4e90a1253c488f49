"""Walks a file of numbers and texts that lie one after the other, little end first."""

from __future__ import annotations

import struct


class Cursor:
    """A place in `data` that moves on with everything read.

    All methods raise `ValueError` where the file ends too early.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    def bytes(self, count: int) -> memoryview:
        """The next `count` bytes."""
        if count < 0 or self.at + count > len(self._data):
            raise ValueError(f"byte {self.at}: {count} bytes are to follow, but the file ends")
        self.at += count
        return self._data[self.at - count : self.at]

    def integer(self, kind: str) -> int:
        """The next number, whole; `kind` as in `struct`, such as ``I``."""
        value = self.number(kind)
        assert isinstance(value, int)
        return value

    def number(self, kind: str) -> int | float | bool:
        """The next number; `kind` as in `struct`."""
        [value] = struct.unpack(f"<{kind}", self.bytes(struct.calcsize(f"<{kind}")))
        assert isinstance(value, int | float)
        return value

    def text(self, length: int) -> str:
        """The next `length` bytes as UTF-8."""
        return str(self.bytes(length), "utf-8")

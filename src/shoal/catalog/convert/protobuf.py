"""The wire form of Protocol Buffers: fields by number, no schema.

Source: https://protobuf.dev/programming-guides/encoding/. Groups, which nobody writes any more,
are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

Value = int | memoryview

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Seven bits a byte, 64 bits at most.
_MAX_VARINT = 10


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Number and value of each field of one message; fixed-width values stay bytes.

    Raises:
        ValueError: the bytes are no message.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"byte {at}: unknown wire type {kind}")
        if at + size > len(data):
            raise ValueError(f"byte {at}: a field of {size} bytes passes the end")
        yield number, data[at : at + size]
        at += size


def grouped(data: memoryview) -> dict[int, list[Value]]:
    """The values of each field of one message. Raises `ValueError` as `fields` does."""
    found: dict[int, list[Value]] = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def integers(values: list[Value]) -> list[int]:
    """A repeated field of integers, each alone or packed, as signed 64 bits."""
    found: list[int] = []
    for value in values:
        if isinstance(value, int):
            found.append(_signed(value))
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            found.append(_signed(number))
    return found


def text(value: Value) -> str:
    """A string field. Raises `ValueError` if it is none."""
    if isinstance(value, int):
        raise ValueError("a number stands where a text belongs")
    return str(value, "utf-8")


def message(value: Value) -> memoryview:
    """A field that holds bytes or a message. Raises `ValueError` if it does not."""
    if isinstance(value, int):
        raise ValueError("a number stands where bytes belong")
    return value


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(data[at : at + _MAX_VARINT]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + i + 1
    raise ValueError(f"byte {at}: a number does not end")

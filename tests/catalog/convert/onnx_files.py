"""ONNX files made by hand, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "float16": 10}


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, array: NDArray[Any], where: str = "raw") -> bytes:
    """An initializer; `where`: raw, or the numbers one by one (values)."""
    head = b"".join(field(1, size) for size in array.shape)
    head += field(2, _TYPES[array.dtype.name]) + field(8, name)
    if where == "raw":
        return head + field(9, array.tobytes())
    if array.dtype.kind == "f":
        return head + field(4, struct.pack(f"<{array.size}f", *array.ravel()))
    number = 7 if array.dtype.name == "int64" else 5
    return head + field(number, b"".join(varint(int(value)) for value in array.ravel()))


def node(
    op: str, name: str, inputs: Iterable[str], output: str, **integers: int | list[int]
) -> bytes:
    attributes = (field(5, field(1, key) + _said(value)) for key, value in integers.items())
    named = b"".join(field(1, each) for each in inputs) + field(2, output)
    return named + field(3, name) + field(4, op) + b"".join(attributes)


def _said(value: int | list[int]) -> bytes:
    """An attribute's number or numbers, and which of both it has."""
    if isinstance(value, int):
        return field(3, value) + field(20, 2)
    return b"".join(field(8, number) for number in value) + field(20, 7)


def model(nodes: Iterable[bytes] = (), tensors: Iterable[bytes] = ()) -> bytes:
    graph = b"".join(field(1, each) for each in nodes)
    graph += b"".join(field(5, each) for each in tensors)
    return field(1, 8) + field(7, graph)

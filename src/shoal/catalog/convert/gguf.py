"""GGUF, llama.cpp's format: metadata, and tensors that may be packed.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from shoal.catalog.convert import ggml
from shoal.catalog.convert.binary import Cursor
from shoal.catalog.convert.tensors import Tensor, mapped, read_as

_MAGIC = b"GGUF"
#: Files of version 1 had shorter lengths; nobody writes them any more.
_VERSIONS = (2, 3)
#: Number of a metadata value's type -> its letter in `struct`.
_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _LIST = 8, 9
#: Tensors begin at a multiple of it, unless the metadata say otherwise.
_ALIGNMENT = 32


class Gguf(msgspec.Struct, frozen=True):
    """`metadata`: its keys and values; `tensors`: by ggml's names, rows last to first as PyTorch."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def read_gguf(file: Path) -> Gguf:
    """Read a file. Raises `SourceError` saying what is wrong with it."""
    with read_as(f"{file.name}: not a readable GGUF file"):
        return _read(mapped(file))


def _read(data: memoryview) -> Gguf:
    cursor = Cursor(data)
    if bytes(cursor.bytes(4)) != _MAGIC:
        raise ValueError("it does not begin with GGUF")
    if (version := cursor.integer("I")) not in _VERSIONS:
        raise ValueError(f"version {version}; known are 2 and 3")
    tensors, pairs = cursor.integer("Q"), cursor.integer("Q")
    metadata = {_text(cursor): _value(cursor, cursor.integer("I")) for _ in range(pairs)}
    entries = [_entry(cursor) for _ in range(tensors)]
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"its tensors begin at multiples of {alignment!r}")
    start = -(-cursor.at // alignment) * alignment
    return Gguf(
        metadata,
        {
            name: ggml.unpacked(data, start + at, kind, shape, f"tensor '{name}'")
            for name, shape, kind, at in entries
        },
    )


def _entry(cursor: Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape, ggml type, and where it lies behind the start of all tensors."""
    name = _text(cursor)
    sizes = [cursor.integer("Q") for _ in range(cursor.integer("I"))]
    return name, tuple(reversed(sizes)), cursor.integer("I"), cursor.integer("Q")


def _value(cursor: Cursor, kind: int) -> Any:
    if kind == _TEXT:
        return _text(cursor)
    if kind == _LIST:
        of = cursor.integer("I")
        return [_value(cursor, of) for _ in range(cursor.integer("Q"))]
    if kind not in _NUMBERS:
        raise ValueError(f"byte {cursor.at}: a value of unknown type {kind}")
    return cursor.number(_NUMBERS[kind])


def _text(cursor: Cursor) -> str:
    return cursor.text(cursor.integer("Q"))

"""GGUF files made by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

ALIGNMENT = 32


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(given: Any) -> bytes:
    """A metadata value with its type before it."""
    match given:
        case bool():
            return struct.pack("<I?", 7, given)
        case int():
            return struct.pack("<IQ", 10, given)
        case float():
            return struct.pack("<If", 6, given)
        case str():
            return struct.pack("<I", 8) + text(given)
        case list():
            parts = [value(each) for each in given]
            kind = parts[0][:4] if parts else struct.pack("<I", 4)
            return (
                struct.pack("<I", 9)
                + kind
                + struct.pack("<Q", len(parts))
                + b"".join(part[4:] for part in parts)
            )
        case _:
            raise TypeError(given)


def gguf(
    metadata: Mapping[str, Any], tensors: Mapping[str, tuple[int, tuple[int, ...], bytes]]
) -> bytes:
    """`tensors`: name -> ggml type, shape as PyTorch has it, bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, given in metadata.items():
        head += text(key) + value(given)
    body = b""
    for name, (kind, shape, data) in tensors.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += text(name) + sizes + struct.pack("<IQ", kind, len(body))
        body += data + bytes(-len(data) % ALIGNMENT)
    return head + bytes(-len(head) % ALIGNMENT) + body

"""A tiny language model with random weights as a GGUF file, version 3: llama.cpp's own format.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from shoal.runtimes.check.made import MAX_TOKENS, VOCABULARY

_ALIGNMENT = 32
_UINT32, _FLOAT32, _STRING = 4, 6, 8
#: Width of what it computes, in two heads.
DIM = 64

Value = int | float | str
Shapes = Iterator[tuple[str, tuple[int, ...]]]


def llama(path: Path, layers: int, inner: int) -> None:
    """`inner`: width of the networks between its attentions. It knows ids and no words."""
    path.parent.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Value] = {
        "general.architecture": "llama",
        "general.alignment": _ALIGNMENT,
        "llama.context_length": MAX_TOKENS,
        "llama.embedding_length": DIM,
        "llama.block_count": layers,
        "llama.feed_forward_length": inner,
        "llama.attention.head_count": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "llama.vocab_size": VOCABULARY,
        "tokenizer.ggml.model": "no_vocab",
    }
    shapes = list(_shapes(layers, inner))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(facts))
    head += b"".join(_text(key) + _value(value) for key, value in facts.items())
    offset = 0
    for name, shape in shapes:
        sizes = struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += _text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", 0, offset)
        offset += _padded(4 * int(np.prod(shape)))
    random = np.random.default_rng(7)
    with path.open("wb") as file:
        file.write(head.ljust(_padded(len(head)), b"\0"))
        for _, shape in shapes:
            data = random.standard_normal(shape, np.float32).tobytes()
            file.write(data.ljust(_padded(len(data)), b"\0"))


def _shapes(layers: int, inner: int) -> Shapes:
    yield "token_embd.weight", (VOCABULARY, DIM)
    for layer in (f"blk.{number}" for number in range(layers)):
        yield f"{layer}.attn_norm.weight", (DIM,)
        for part in ("q", "k", "v", "output"):
            yield f"{layer}.attn_{part}.weight", (DIM, DIM)
        yield f"{layer}.ffn_norm.weight", (DIM,)
        for part in ("gate", "up"):
            yield f"{layer}.ffn_{part}.weight", (inner, DIM)
        yield f"{layer}.ffn_down.weight", (DIM, inner)
    yield "output_norm.weight", (DIM,)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    match value:
        case int():
            return struct.pack("<II", _UINT32, value)
        case float():
            return struct.pack("<If", _FLOAT32, value)
        case str():
            return struct.pack("<I", _STRING) + _text(value)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT

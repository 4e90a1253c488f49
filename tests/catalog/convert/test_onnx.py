from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.catalog.convert.onnx import Node, read_graph
from shoal.errors import SourceError

from .onnx_files import field, model, node, tensor


def written(folder: Path, data: bytes) -> Path:
    file = folder / "model.onnx"
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("where", ["raw", "values"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8", "int32", "int64"])
def test_tensors_of_every_kind(tmp_path: Path, dtype: str, where: str) -> None:
    array = (np.arange(6) * (1 if dtype == "uint8" else -1)).astype(dtype).reshape(2, 3)
    file = written(tmp_path, model(tensors=[tensor("x", array, where)]))
    read = read_graph(file).tensors["x"]
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


def test_a_scalar(tmp_path: Path) -> None:
    file = written(tmp_path, model(tensors=[tensor("x", np.array(0.5, np.float32), "values")]))
    assert read_graph(file).tensors["x"] == 0.5


def test_nodes(tmp_path: Path) -> None:
    file = written(tmp_path, model([node("Gemm", "/a/Gemm", ["x", "w"], "y", transB=1, axis=-1)]))
    expected = Node("Gemm", "/a/Gemm", ["x", "w"], ["y"], {"transB": 1, "axis": -1})
    assert read_graph(file).nodes == [expected]


def test_text_tensors_are_left_out(tmp_path: Path) -> None:
    file = written(tmp_path, model(tensors=[field(2, 8) + field(8, "words")]))
    assert read_graph(file).tensors == {}


def outside() -> bytes:
    return tensor("w", np.zeros(1, np.float32)) + field(13, field(1, "location"))


def short() -> bytes:
    return field(1, 4) + field(2, 1) + field(8, "w") + field(9, b"1234567")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "cannot mmap an empty file"),
        (b"GGUF", "wire type"),
        (field(1, 8), "it holds 0 graphs, not one"),
        (model(tensors=[outside()]), "tensor 'w' lies in another file"),
        (model(tensors=[short()]), "tensor 'w' has 7 bytes where its shape takes 16"),
        (model(tensors=[tensor("w", np.zeros(4, np.float32))])[:-1], "passes the end"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(SourceError, match=f"model.onnx: not a readable ONNX file: .*{problem}"):
        read_graph(written(tmp_path, data))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 200), byte=st.integers(0, 255))
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, cut: int, byte: int) -> None:
    good = model(
        [node("MatMul", "/a/MatMul", ["x", "w"], "y")], [tensor("w", np.eye(4, dtype=np.float32))]
    )
    at = cut % len(good)
    try:
        read_graph(written(tmp_path, good[:at] + bytes([byte]) + good[at + 1 :]))
    except SourceError as error:
        assert str(error).startswith("model.onnx: ")

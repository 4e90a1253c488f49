"""Graphs with rounded activations, and what they compute without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.bench.zoo.originals import session
from shoal.bench.zoo.unrounded import rounds, unrounded
from tests.catalog.convert.onnx_files import field, node, tensor

WEIGHTS = np.array([[3, 130], [255, 7], [90, 0]], np.uint8)
SCALE, ZERO = 0.03, 128
#: Nothing that eight bits hold: 0.001 beside 9.
X = np.array([[0.001, -0.2003, 9.0], [1.5, 0.00007, -3.25]], np.float32)
FLOAT = 1


def value(name: str, *shape: int) -> bytes:
    """What a graph takes or gives: its name, type and shape."""
    dims = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, dims)))


def model(file: Path, nodes: list[bytes], tensors: list[bytes]) -> Path:
    graph = b"".join(field(1, each) for each in nodes) + field(2, "g")
    graph += b"".join(field(5, each) for each in tensors)
    graph += field(11, value("x", *X.shape)) + field(12, value("y", 2, 2))
    graph += field(13, field(1, "q") + field(2, field(1, field(1, 2))))  # q is uint8
    file.write_bytes(field(1, 8) + field(8, field(2, 13)) + field(7, graph))
    return file


def dynamic(file: Path, zero: bool) -> Path:
    """As onnxruntime quantizes what it has no samples for."""
    rounded = node("DynamicQuantizeLinear", "d", ["x"], "q") + field(2, "s") + field(2, "z")
    inputs = ["q", "w", "z", "w_zero"] if zero else ["q", "w", "z"]
    scale = np.array([SCALE], np.float32)
    return model(
        file,
        [
            rounded,
            node("MatMulInteger", "m", inputs, "i"),
            node("Cast", "c", ["i"], "f", to=FLOAT),
            node("Mul", "p", ["s", "w_scale"], "both"),
            node("Mul", "o", ["f", "both"], "y"),
        ],
        [
            tensor("w", WEIGHTS),
            tensor("w_scale", scale),
            tensor("w_zero", np.array(ZERO, np.uint8)),
        ],
    )


def static(file: Path) -> Path:
    """As it does with samples: rounded, and taken back at once."""
    return model(
        file,
        [
            node("QuantizeLinear", "q", ["x", "x_scale", "w_zero"], "q"),
            node("DequantizeLinear", "d", ["q", "x_scale", "w_zero"], "xd"),
            node("DequantizeLinear", "w", ["w", "w_scale", "w_zero"], "wd"),
            node("MatMul", "m", ["xd", "wd"], "y"),
        ],
        [
            tensor("w", WEIGHTS),
            tensor("x_scale", np.array(0.1, np.float32)),
            tensor("w_scale", np.array(SCALE, np.float32)),
            tensor("w_zero", np.array(ZERO, np.uint8)),
        ],
    )


def run(graph: bytes) -> Any:
    (y,) = session(graph, as_written=True).run(None, {"x": X})
    return y


@pytest.mark.parametrize("kind", ["dynamic", "without zero points", "static"])
def test_products_are_those_of_the_weights(tmp_path: Path, kind: str) -> None:
    zero = kind != "without zero points"
    file = tmp_path / "m.onnx"
    file = static(file) if kind == "static" else dynamic(file, zero)
    expected = X @ ((WEIGHTS.astype(np.float32) - zero * ZERO) * np.float32(SCALE))
    assert rounds(file)
    assert np.abs(run(file.read_bytes()) - expected).max() > 0.01
    np.testing.assert_allclose(run(unrounded(file)), expected, rtol=1e-5)


def test_what_does_not_round_stays(tmp_path: Path) -> None:
    weights = tensor("w", WEIGHTS.astype(np.float32))
    file = model(tmp_path / "m.onnx", [node("MatMul", "m", ["x", "w"], "y")], [weights])
    assert not rounds(file)
    np.testing.assert_array_equal(run(unrounded(file)), run(file.read_bytes()))

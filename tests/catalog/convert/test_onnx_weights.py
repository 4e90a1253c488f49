from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.catalog.convert.onnx_weights import read
from shoal.errors import SourceError

from .onnx_files import model, node, tensor

Array = NDArray[Any]
RANDOM = np.random.default_rng(0)
LINEAR = RANDOM.normal(size=(6, 4)).astype(np.float32)  # [out, in]
QUERY = "/encoder/layer.0/attention/self/query"
NAME = "encoder.layer.0.attention.self.query.weight"


def weights(folder: Path, nodes: list[bytes], **tensors: Array) -> dict[str, Array]:
    file = folder / "model.onnx"
    file.write_bytes(model(nodes, [tensor(name, array) for name, array in tensors.items()]))
    found = read([file], folder).tensors
    values = {name: each.read() for name, each in found.items()}
    assert {name: each.shape for name, each in found.items()} == {
        name: value.shape for name, value in values.items()
    }
    return values


def quantized(array: Array) -> tuple[Array, Array, Array]:
    """uint8 numbers, scale and zero point, as onnxruntime makes them for one tensor."""
    scale = np.float32((array.max() - array.min()) / 255)
    zero = np.uint8(round(float(-array.min() / scale)))
    numbers = np.clip(np.round(array / scale) + zero, 0, 255).astype(np.uint8)
    return numbers, np.array(scale), np.array(zero)


def three(name: str, array: Array) -> dict[str, Array]:
    numbers, scale, zero = quantized(array)
    return {f"{name}_quantized": numbers, f"{name}_scale": scale, f"{name}_zero_point": zero}


def test_a_product_is_named_by_its_node(tmp_path: Path) -> None:
    found = weights(
        tmp_path,
        [node("MatMul", f"{QUERY}/MatMul", ["x", "onnx::MatMul_7"], "y")],
        **{"onnx::MatMul_7": LINEAR.T.copy(), "encoder.layer.0.norm.bias": LINEAR[0]},
    )
    np.testing.assert_array_equal(found[NAME], LINEAR)
    np.testing.assert_array_equal(found["encoder.layer.0.norm.bias"], LINEAR[0])


def test_products_of_activations_and_shapes_are_no_weights(tmp_path: Path) -> None:
    nodes = [node("MatMul", "/a/MatMul", ["q", "k"], "y"), node("Gather", "/a/Gather", ["i"], "z")]
    constants = {"/a/shape": np.array([1, 2]), "onnx::Mul_3": np.ones((1, 1), np.float32)}
    assert weights(tmp_path, nodes, **constants) == {}


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_named_gemm(tmp_path: Path, transposed: int) -> None:
    kept = LINEAR if transposed else LINEAR.T.copy()
    nodes = [node("Gemm", "/classifier/Gemm", ["x", "head.weight", "b"], "y", transB=transposed)]
    np.testing.assert_array_equal(
        weights(tmp_path, nodes, **{"head.weight": kept})["head.weight"], LINEAR
    )


def test_dynamic_int8(tmp_path: Path) -> None:
    found = weights(
        tmp_path,
        [
            node("MatMulInteger", f"{QUERY}/MatMul_quant", ["x", "onnx::MatMul_7_quantized"], "y"),
            node("Gather", "/emb/Gather", ["emb.weight_quantized", "ids"], "z"),
            node(
                "MatMulInteger", "/head/Gemm_MatMul_quant", ["x", "head.weight_quantized"], "logits"
            ),
        ],
        **three("onnx::MatMul_7", LINEAR.T.copy()),
        **three("head.weight", LINEAR.T.copy()),
        **three("emb.weight", LINEAR),
    )
    assert sorted(found) == ["emb.weight", NAME, "head.weight"]
    step = float(quantized(LINEAR)[1])
    for restored in found.values():
        assert np.abs(restored - LINEAR).max() <= step / 2 + 1e-6


def test_quantize_dequantize_pairs_with_a_scale_for_each_row(tmp_path: Path) -> None:
    scale = np.abs(LINEAR).max(1) / 127
    numbers = np.round(LINEAR / scale[:, None]).astype(np.int8)
    found = weights(
        tmp_path,
        [
            node(
                "DequantizeLinear", "d", [f"w_{n}" for n in ("quantized", "scale")], "w_d", axis=1
            ),
            node("MatMul", f"{QUERY}/MatMul", ["x", "w_d"], "y"),
        ],
        w_quantized=numbers.T.copy(),
        w_scale=scale,
    )
    np.testing.assert_allclose(found["w"], numbers * scale[:, None], rtol=1e-6)


@pytest.mark.parametrize("zeros", [False, True])
def test_four_bits(tmp_path: Path, zeros: bool) -> None:
    out, width, block = 3, 40, 32  # the last block is half full
    numbers = RANDOM.integers(0, 16, size=(out, 2, block), dtype=np.uint8)
    middles = RANDOM.integers(0, 16, size=(out, 2), dtype=np.uint8)
    scales = RANDOM.uniform(0.1, 1, size=(out, 2)).astype(np.float32)
    packed = numbers[..., ::2] | numbers[..., 1::2] << 4
    tensors = {"onnx::MatMul_7_Q4": packed, "onnx::MatMul_7_scales": scales.ravel()}
    if zeros:
        tensors["onnx::MatMul_7_zero_points"] = middles[:, 0] | middles[:, 1] << 4
    sizes = {"N": out, "K": width, "bits": 4, "block_size": block}
    found = weights(
        tmp_path,
        [node("MatMulNBits", f"{QUERY}/MatMul_Q4", ["x", *tensors], "y", **sizes)],
        **tensors,
    )
    middle = middles[..., None].astype(np.float32) if zeros else np.float32(8)
    expected = ((numbers - middle) * scales[..., None]).reshape(out, -1)[:, :width]
    assert list(found) == [NAME]
    np.testing.assert_allclose(found[NAME], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([], r"no module can be told that 'onnx::MatMul_7' \[4, 6\] belongs to"),
        (
            [node("MatMul", "MatMul_12", ["x", "onnx::MatMul_7"], "y")],
            "does not say to which module",
        ),
        (
            [
                node(
                    "MatMulNBits",
                    f"{QUERY}/MatMul_Q8",
                    ["x", "onnx::MatMul_7"],
                    "y",
                    N=6,
                    K=4,
                    bits=8,
                    block_size=32,
                )
            ],
            "weights of 8 bits; only 4 are known",
        ),
    ],
)
def test_weights_that_cannot_be_told(tmp_path: Path, nodes: list[bytes], problem: str) -> None:
    with pytest.raises(SourceError, match=f"model.onnx: .*{problem}"):
        weights(tmp_path, nodes, **{"onnx::MatMul_7": LINEAR.T.copy()})


def test_a_scale_that_is_not_there(tmp_path: Path) -> None:
    numbers, _, _ = quantized(LINEAR)
    with pytest.raises(SourceError, match=r"emb\.weight_scale"):
        weights(tmp_path, [], **{"emb.weight_quantized": numbers})


def test_several_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(model(tensors=[tensor(f"{name}.bias", LINEAR[0])]))
    files = [tmp_path / "a", tmp_path / "b"]
    assert sorted(read(files, tmp_path).tensors) == ["a.bias", "b.bias"]
    with pytest.raises(SourceError, match=r"tensor 'a.bias' stands in another file too"):
        read([files[0], files[0]], tmp_path)

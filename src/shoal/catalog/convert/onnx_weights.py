"""The weights of a PyTorch model, from its ONNX export, quantized or not.

An export keeps the names of biases, norms and tables, but calls the weights of matrix products
``onnx::MatMul_1525``: their names follow from the name of the node that uses them, which is the
path of its module. onnxruntime's quantizers put ``NAME_quantized``, ``NAME_scale`` and
``NAME_zero_point`` where NAME was, or ``NAME_Q4`` for four bits. A product's weights are stored
[in, out]; PyTorch has [out, in].
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from shoal.catalog.convert.onnx import Graph, Node, read_graph
from shoal.catalog.convert.tensors import Array, Found, Tensor, read_as, stored
from shoal.errors import SourceError

#: What exporters and quantizers put behind a module's path.
_OPERATION = re.compile(r"(MatMul|Gemm)(_\d+)?(_MatMul)?(_quant|_Q4)?\Z")
_PRODUCTS = ("MatMul", "Gemm", "MatMulInteger")
_ANONYMOUS = "onnx::"
_QUANTIZED, _FOUR_BITS, _SCALE, _ZERO = "_quantized", "_Q4", "_scale", "_zero_point"
#: Without zero points of their own, four bits stand for -8 to 7 times the scale.
_MIDDLE = 8


def read(files: list[Path], folder: Path) -> Found:
    """The tensors of all `files`, under the names of the PyTorch model's `state_dict`.

    Raises:
        SourceError: a file cannot be read, or it is not plain to which module a weight belongs.
    """
    tensors: dict[str, Tensor] = {}
    for file in files:
        graph = read_graph(file)
        with read_as(file.name):
            found = _Weights(graph).tensors()
        if twice := tensors.keys() & found.keys():
            raise SourceError(f"{file.name}: tensor '{min(twice)}' stands in another file too")
        tensors |= found
    return Found(tensors)


class _Weights:
    """The weights of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._stored = graph.tensors
        dequantizers = [node for node in graph.nodes if node.op == "DequantizeLinear"]
        #: What a node dequantizes, by the name of the outcome.
        self._dequantized = {node.outputs[0]: node.inputs[0] for node in dequantizers}
        #: Which axis has a scale for each of its rows; ONNX says 1 where nothing is said.
        self._axes = {node.inputs[0]: node.integers.get("axis", 1) for node in dequantizers}

    def tensors(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        used: set[str] = set()
        for node in self._nodes:
            source = self._source(node)
            if source is not None:
                used |= {source, *node.inputs}
                found[_name(node, source)] = self._factor(node, source)
        for name, array in self._stored.items():
            if name in used or array.ndim == 0 or name.endswith((_SCALE, _ZERO)):
                continue
            if name.startswith((_ANONYMOUS, "/")):
                self._refuse_weights(name, array)
            elif name.endswith(_QUANTIZED) or array.dtype.kind == "f":
                found[name.removesuffix(_QUANTIZED)] = self._tensor(name)
        return found

    def _source(self, node: Node) -> str | None:
        """The stored tensor that a product multiplies with; None for products of activations."""
        if node.op not in (*_PRODUCTS, "MatMulNBits") or len(node.inputs) < 2:
            return None
        name = self._dequantized.get(node.inputs[1], node.inputs[1])
        return name if name in self._stored else None

    def _factor(self, node: Node, source: str) -> Tensor:
        """The weights of a product, [out, in]."""
        if node.op == "MatMulNBits":
            return self._four_bits(node)
        tensor = self._tensor(source)
        if node.op == "Gemm" and node.integers.get("transB"):
            return tensor
        return Tensor(tensor.shape[::-1], lambda: tensor.read().T)

    def _tensor(self, name: str) -> Tensor:
        array = self._stored[name]
        if not name.endswith(_QUANTIZED):
            return stored(array)
        base = name.removesuffix(_QUANTIZED)
        scale = self._stored[base + _SCALE]
        zero = self._stored.get(base + _ZERO, np.zeros(1, np.int8))
        axis = self._axes.get(name, array.ndim - 1)
        return Tensor(array.shape, lambda: _dequantize(array, scale, zero, axis))

    def _four_bits(self, node: Node) -> Tensor:
        """`com.microsoft.MatMulNBits`: rows of blocks, each with a scale, low half of a byte first."""
        out, width = node.integers["N"], node.integers["K"]
        bits, block = node.integers["bits"], node.integers["block_size"]
        if bits != 4:
            raise ValueError(f"node {node.name}: weights of {bits} bits; only 4 are known")
        inputs = [self._stored.get(name) for name in node.inputs[1:4]]
        packed, scales, zeros = (*inputs, None)[:3]
        if packed is None or scales is None:
            raise ValueError(f"node {node.name}: its weights or their scales are not in the file")
        blocks = packed.reshape(out, -1, block // 2)

        def read() -> Array:
            numbers = _halves(blocks).astype(np.float32)
            middle: Array | int = _MIDDLE
            if zeros is not None:
                middle = _halves(zeros.reshape(out, -1))[:, : blocks.shape[1], None]
            values = (numbers - middle) * scales.reshape(out, -1, 1)
            return values.reshape(out, -1)[:, :width]

        return Tensor((out, width), read)

    @staticmethod
    def _refuse_weights(name: str, array: Array) -> None:
        """What no product uses may be a shape or a mask, but nothing as large as weights."""
        if array.dtype.kind == "f" and array.ndim > 1 and min(array.shape) > 1:
            raise ValueError(f"no module can be told that '{name}' {list(array.shape)} belongs to")


def _name(node: Node, source: str) -> str:
    """The name of a product's weights."""
    if not source.startswith(_ANONYMOUS):
        return source.removesuffix(_QUANTIZED).removesuffix(_FOUR_BITS)
    *path, last = node.name.strip("/").split("/")
    if not path or not _OPERATION.match(last):
        raise ValueError(f"node '{node.name}' does not say to which module its weights belong")
    return ".".join([*path, "weight"])


def _dequantize(numbers: Array, scale: Array, zero: Array, axis: int) -> Array:
    """(numbers - zero) · scale, with one scale in all or one for each row of `axis`."""
    if scale.size > 1:
        shape = [1] * numbers.ndim
        shape[axis] = -1
        scale = scale.reshape(shape)
        zero = zero.reshape(shape) if zero.size > 1 else zero
    return (numbers.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)


def _halves(packed: Array) -> Array:
    """The two numbers of each byte, low half first; the last axis grows to twice its size."""
    return np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)

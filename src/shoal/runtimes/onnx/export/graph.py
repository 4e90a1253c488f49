"""Writes an ONNX model: nodes and small constants in one file, weights in another beside it.

Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3. Weights lie outside, so that a graph
may pass the 2 GB of Protocol Buffers, and what is looked up row by row need never be in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

GRAPH, WEIGHTS = "model.onnx", "model.onnx_data"

#: The operators of onnxruntime's own.
MICROSOFT = "com.microsoft"
#: `Gelu` came with 20, which onnxruntime has since 1.17; 10 is the file format of its day.
_OPSET, _IR = 20, 10

# Field numbers of onnx.proto3.
_MODEL_IR, _MODEL_GRAPH, _MODEL_OPSET = 1, 7, 8
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_TENSOR, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OP, _NODE_ATTRIBUTE, _NODE_DOMAIN = 1, 2, 4, 5, 7
_ATTRIBUTE_NAME, _ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_TEXT = 1, 2, 3, 4
_ATTRIBUTE_INTS, _ATTRIBUTE_TYPE = 8, 20
_FLOAT, _INT, _TEXT, _INTS = 1, 2, 3, 7
_TENSOR_DIM, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 8, 9
_TENSOR_OUTSIDE, _TENSOR_PLACE, _OUTSIDE = 13, 14, 1

#: numpy -> `TensorProto.DataType`.
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
#: Weights begin at pages, so that they can be mapped each by itself.
_PAGE = 4096

Attribute = int | float | str | Sequence[int]
Shape = Sequence[int | str]


class GraphWriter:
    """A graph as it is built. Names of values are made up here and mean nothing."""

    def __init__(self, data: BinaryIO) -> None:
        """`data`: the file of the weights, at its start."""
        self._data = data
        self._graph: list[bytes] = [_field(_GRAPH_NAME, "encoder")]
        self._values = 0

    def input(self, name: str, dtype: str, shape: Shape) -> str:
        """What a caller gives under this name; sizes that are names are free."""
        self._graph.append(_field(_GRAPH_INPUT, _value(name, dtype, shape)))
        return name

    def output(self, name: str, value: str, dtype: str, shape: Shape) -> None:
        """A value that a caller gets under this name."""
        self._add("Identity", [value], [name], "", {})
        self._graph.append(_field(_GRAPH_OUTPUT, _value(name, dtype, shape)))

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Attribute) -> str:
        """The value that an operation gives of others; an input that is left out is ''."""
        made = self._named()
        self._add(op, inputs, [made], domain, attributes)
        return made

    def constant(self, array: NDArray[Any]) -> str:
        """A few numbers, which stand in the graph itself."""
        name = self._named()
        raw = _field(_TENSOR_RAW, np.ascontiguousarray(array).tobytes())
        self._graph.append(_field(_GRAPH_TENSOR, _head(name, array) + raw))
        return name

    def weights(self, array: NDArray[Any]) -> str:
        """Many numbers, which go to the other file at once."""
        name = self._named()
        self._data.write(b"\0" * (-self._data.tell() % _PAGE))
        at = self._data.tell()
        size = self._data.write(np.ascontiguousarray(array).data.cast("B"))
        where = {"location": WEIGHTS, "offset": str(at), "length": str(size)}
        outside = b"".join(
            _field(_TENSOR_OUTSIDE, _field(1, key) + _field(2, said)) for key, said in where.items()
        )
        tensor = _head(name, array) + outside + _field(_TENSOR_PLACE, _OUTSIDE)
        self._graph.append(_field(_GRAPH_TENSOR, tensor))
        return name

    def write(self, path: Path) -> None:
        """Write the graph."""
        opsets = [
            _field(_MODEL_OPSET, _field(_OPSET_DOMAIN, domain) + _field(_OPSET_VERSION, version))
            for domain, version in (("", _OPSET), (MICROSOFT, 1))
        ]
        graph = _field(_MODEL_GRAPH, b"".join(self._graph))
        path.write_bytes(_field(_MODEL_IR, _IR) + graph + b"".join(opsets))

    def _named(self) -> str:
        self._values += 1
        return f"v{self._values}"

    def _add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        domain: str,
        attributes: dict[str, Attribute],
    ) -> None:
        parts = [_field(_NODE_INPUT, name) for name in inputs]
        parts += [_field(_NODE_OUTPUT, name) for name in outputs]
        parts += [_field(_NODE_OP, op), _field(_NODE_DOMAIN, domain)]
        parts += [
            _field(_NODE_ATTRIBUTE, _field(_ATTRIBUTE_NAME, name) + _attribute(value))
            for name, value in attributes.items()
        ]
        self._graph.append(_field(_GRAPH_NODE, b"".join(parts)))


def _attribute(value: Attribute) -> bytes:
    match value:
        case float():
            four = _varint(_ATTRIBUTE_FLOAT << 3 | 5) + struct.pack("<f", value)
            return four + _field(_ATTRIBUTE_TYPE, _FLOAT)
        case int():
            return _field(_ATTRIBUTE_INT, value) + _field(_ATTRIBUTE_TYPE, _INT)
        case str():
            return _field(_ATTRIBUTE_TEXT, value) + _field(_ATTRIBUTE_TYPE, _TEXT)
        case _:
            numbers = b"".join(_field(_ATTRIBUTE_INTS, number) for number in value)
            return numbers + _field(_ATTRIBUTE_TYPE, _INTS)


def _head(name: str, array: NDArray[Any]) -> bytes:
    sizes = b"".join(_field(_TENSOR_DIM, size) for size in array.shape)
    return sizes + _field(_TENSOR_TYPE, _TYPES[array.dtype.name]) + _field(_TENSOR_NAME, name)


def _value(name: str, dtype: str, shape: Shape) -> bytes:
    """`ValueInfoProto`: name 1, type 2; of that tensor 1; of that type 1, shape 2; of that sizes 1,
    each a number 1 or a name 2."""
    sizes = b"".join(_field(1, _field(1 if isinstance(n, int) else 2, n)) for n in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, _TYPES[dtype]) + _field(2, sizes)))


def _field(number: int, value: int | str | bytes) -> bytes:
    """One field: https://protobuf.dev/programming-guides/encoding/."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])

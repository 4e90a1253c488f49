"""An ONNX graph without the rounding of activations: its weights as they are, its products in float32.

onnxruntime's quantizers put a rounding to 8 bits before each product: `DynamicQuantizeLinear` and
`MatMulInteger`, or `QuantizeLinear` and `DequantizeLinear` one after the other. Taken out, what is left
is the original's own computation with the original's own weights. What an operation does stands in
https://onnx.ai/onnx/operators/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from shoal.catalog.convert.onnx import Node, read_graph
from shoal.catalog.convert.protobuf import Value, fields, message
from shoal.catalog.convert.tensors import mapped

# Field numbers of onnx.proto3.
_MODEL_GRAPH = 7
#: Types of what is between nodes are noted there; they change, and may be left out.
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_NOTED_TYPES = 1, 5, 13
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP, _NODE_ATTRIBUTE = 1, 2, 3, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INT, _ATTRIBUTE_KIND = 1, 3, 20
_KIND_INT = 2
_TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW = 2, 8, 9
_FLOAT = 1

_ROUNDS = ("DynamicQuantizeLinear", "QuantizeLinear")


def rounds(file: Path) -> bool:
    """Whether the graph rounds activations."""
    return any(node.op in _ROUNDS for node in read_graph(file).nodes)


def unrounded(file: Path) -> bytes:
    """The model of this file without that. Raises `SourceError` for a file that cannot be read."""
    nodes = read_graph(file).nodes
    rounded = {node.outputs[0] for node in nodes if node.op == "QuantizeLinear"}
    return b"".join(
        _field(number, _graph(value, nodes, rounded) if number == _MODEL_GRAPH else value)
        for number, value in fields(mapped(file))
    )


def _graph(value: Value, nodes: list[Node], rounded: set[str]) -> bytes:
    told = iter(nodes)
    parts: list[bytes] = []
    for number, part in fields(message(value)):
        if number == _GRAPH_NODE:
            parts += _replaced(next(told), part, rounded)
        elif number != _GRAPH_NOTED_TYPES:
            parts.append(_field(number, part))
    return b"".join(parts)


def _replaced(node: Node, own: Value, rounded: set[str]) -> Iterator[bytes]:
    """What stands in the graph in place of a node, as fields of the graph."""
    if node.op == "DynamicQuantizeLinear":
        yield _node("Identity", node.inputs, node.outputs[0])
        yield _field(_GRAPH_INITIALIZER, _one(node.outputs[1]))
    elif node.op == "MatMulInteger":
        yield from _product(node)
    elif node.op == "QuantizeLinear" or (
        node.op == "DequantizeLinear" and node.inputs[0] in rounded
    ):
        yield _node("Identity", node.inputs[:1], node.outputs[0])
    else:
        yield _field(_GRAPH_NODE, own)


def _product(node: Node) -> Iterator[bytes]:
    """A product with the weights' numbers less their zero points; scales are applied behind it."""
    out = node.outputs[0]
    values, weights, *zeros = node.inputs
    yield _node("Cast", [weights], f"{out}_weights", to=_FLOAT)
    less = f"{out}_weights"
    if len(zeros) > 1:
        yield _node("Cast", [zeros[1]], f"{out}_zeros", to=_FLOAT)
        less = f"{out}_less"
        yield _node("Sub", [f"{out}_weights", f"{out}_zeros"], less)
    yield _node("MatMul", [values, less], out)


def _node(op: str, inputs: list[str], output: str, **integers: int) -> bytes:
    parts = [_field(_NODE_INPUT, name.encode()) for name in inputs]
    parts += [_field(_NODE_OUTPUT, output.encode()), _field(_NODE_NAME, f"{op} {output}".encode())]
    parts.append(_field(_NODE_OP, op.encode()))
    for name, number in integers.items():
        said = _field(_ATTRIBUTE_NAME, name.encode()) + _field(_ATTRIBUTE_INT, number)
        parts.append(_field(_NODE_ATTRIBUTE, said + _field(_ATTRIBUTE_KIND, _KIND_INT)))
    return _field(_GRAPH_NODE, b"".join(parts))


def _one(name: str) -> bytes:
    """The number 1, in place of a scale."""
    kind = _field(_TENSOR_TYPE, _FLOAT) + _field(_TENSOR_NAME, name.encode())
    return kind + _field(_TENSOR_RAW, struct.pack("<f", 1))


def _field(number: int, value: Value | bytes) -> bytes:
    """Of the messages here no field is of a fixed width: numbers are varints, all else is bytes."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + bytes(value)


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])

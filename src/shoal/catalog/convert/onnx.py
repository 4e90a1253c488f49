"""The parts of an ONNX file that weights follow from: nodes, and the tensors they are given.

Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3. Data kept outside of the file
is refused; types other than numbers are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from shoal.catalog.convert.protobuf import Value, fields, grouped, integers, message, text
from shoal.catalog.convert.tensors import Array, array_of, mapped, read_as

# Field numbers of onnx.proto3.
_MODEL_GRAPH, _MODEL_NOTE = 7, 14
_NOTE_KEY, _NOTE_VALUE = 1, 2
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP, _NODE_ATTRIBUTE = 1, 2, 3, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INT = 1, 3
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME = 1, 2, 8
_TENSOR_FLOATS, _TENSOR_INTS, _TENSOR_LONGS, _TENSOR_RAW, _TENSOR_OUTSIDE = 4, 5, 7, 9, 13

#: `TensorProto.DataType` -> numpy.
_DTYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 10: "<f2", 11: "<f8"}
#: Of these, the ones that may stand in `int32_data`.
_AS_INTEGERS = {"u1", "i1", "<i4"}

Message = Mapping[int, list[Value]]


class Node(msgspec.Struct, frozen=True):
    """One operation. `integers`: its attributes that are whole numbers."""

    op: str
    name: str
    inputs: list[str]
    outputs: list[str]
    integers: dict[str, int]


class Graph(msgspec.Struct, frozen=True):
    """`tensors`: the initializers by name, arrays over the mapped file."""

    nodes: list[Node]
    tensors: Mapping[str, Array]


def read_graph(file: Path) -> Graph:
    """Read an ONNX file. Raises `SourceError` saying what is wrong with it."""
    with read_as(f"{file.name}: not a readable ONNX file"):
        graphs = [message(v) for number, v in fields(mapped(file)) if number == _MODEL_GRAPH]
        if len(graphs) != 1:
            raise ValueError(f"it holds {len(graphs)} graphs, not one")
        return _graph(grouped(graphs[0]))


def read_notes(file: Path) -> dict[str, str]:
    """What an exporter noted beside the graph (`metadata_props`). Raises `SourceError`."""
    with read_as(f"{file.name}: not a readable ONNX file"):
        notes = [grouped(message(v)) for number, v in fields(mapped(file)) if number == _MODEL_NOTE]
        return {_text(note, _NOTE_KEY): _text(note, _NOTE_VALUE) for note in notes}


def _graph(fields: Message) -> Graph:
    tensors: dict[str, Array] = {}
    for value in fields.get(_GRAPH_INITIALIZER, []):
        tensor = grouped(message(value))
        if (array := _array(tensor)) is not None:
            tensors[_text(tensor, _TENSOR_NAME)] = array
    nodes = [_node(grouped(message(value))) for value in fields.get(_GRAPH_NODE, [])]
    return Graph(nodes, tensors)


def _node(fields: Message) -> Node:
    attributes = [grouped(message(value)) for value in fields.get(_NODE_ATTRIBUTE, [])]
    return Node(
        op=_text(fields, _NODE_OP),
        name=_text(fields, _NODE_NAME),
        inputs=[text(value) for value in fields.get(_NODE_INPUT, [])],
        outputs=[text(value) for value in fields.get(_NODE_OUTPUT, [])],
        integers={
            _text(attribute, _ATTRIBUTE_NAME): integers(attribute[_ATTRIBUTE_INT])[-1]
            for attribute in attributes
            if _ATTRIBUTE_INT in attribute
        },
    )


def _array(fields: Message) -> Array | None:
    """A tensor's values; None for a type that weights never have."""
    kinds = integers(fields.get(_TENSOR_TYPE, []))
    dtype = _DTYPES.get(kinds[-1]) if kinds else None
    if dtype is None:
        return None
    what = f"tensor '{_text(fields, _TENSOR_NAME)}'"
    if _TENSOR_OUTSIDE in fields:
        raise ValueError(f"{what} lies in another file")
    shape = tuple(integers(fields.get(_TENSOR_DIMS, [])))
    if dtype in _AS_INTEGERS and _TENSOR_INTS in fields:
        return _of_integers(integers(fields[_TENSOR_INTS]), dtype, shape, what)
    if dtype == "<i8" and _TENSOR_LONGS in fields:
        return _of_integers(integers(fields[_TENSOR_LONGS]), dtype, shape, what)
    raw = fields.get(_TENSOR_FLOATS if _TENSOR_RAW not in fields else _TENSOR_RAW, [])
    parts = [message(value) for value in raw]
    return array_of(
        parts[0] if len(parts) == 1 else memoryview(b"".join(parts)), dtype, shape, what
    )


def _of_integers(values: list[int], dtype: str, shape: tuple[int, ...], what: str) -> Array:
    array = np.array(values, np.int64).astype(dtype)
    return array_of(memoryview(array.tobytes()), dtype, shape, what)


def _text(fields: Message, number: int) -> str:
    """The last value of a text field, as Protocol Buffers has it; empty if it is not there."""
    values = fields.get(number, [])
    return text(values[-1]) if values else ""

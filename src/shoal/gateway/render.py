"""Answers to response bodies, in pieces of a unit each, so that no piece holds the loop for long.

Decides how a vector looks in JSON, MessagePack and base64. It must not know where answers come
from.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from shoal.errors import ErrorInfo
from shoal.gateway.envelope import described
from shoal.gateway.replies import ItemAnswer
from shoal.values import VectorDType
from shoal.wire.outputs import Row, Sparse

Vector = NDArray[Any]

_msgpack = msgspec.msgpack.Encoder()


def json_bytes(value: Any) -> bytes:
    """`value` as JSON; numpy rows become lists of numbers."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def base64_text(vector: Vector) -> str:
    """Little-endian float32, as OpenAI's `encoding_format: base64`."""
    return base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").data).decode("ascii")


def tensor(vector: Vector) -> dict[str, Any]:
    """A vector as MessagePack carries it; `data` is not copied."""
    return {"dtype": vector.dtype.name, "shape": vector.shape, "data": vector.data}


def vectors_shape(dtype: VectorDType) -> Callable[[ItemAnswer, bool], dict[str, Any]]:
    """How an item's vectors of this type are shown; the second argument: as MessagePack."""
    if dtype in ("float32", "float16"):
        return _plain_item
    return partial(_quantised_item, dtype)


def item_shape(item: ItemAnswer, answer: dict[str, Any]) -> dict[str, Any]:
    """One entry of a native answer: `answer`, or the error of the item."""
    if item.error is not None:
        return {"error": described(located(item.error, f"items[{item.position}]"))}
    answer["tokens"] = item.tokens
    answer["truncated"] = item.truncated
    return answer


def _plain_item(item: ItemAnswer, msgpack: bool) -> dict[str, Any]:
    vector = tensor if msgpack else _as_it_is
    return item_shape(item, {head: _row(row, vector) for head, row in item.vectors.items()})


def _quantised_item(dtype: VectorDType, item: ItemAnswer, msgpack: bool) -> dict[str, Any]:
    """What restores a vector, ``<head>.scale`` and the like, stands beside its numbers."""
    shape: dict[str, Any] = {}
    for head, row in sorted(item.vectors.items()):
        name, _, restores = head.partition(".")
        if restores:
            shape[name][restores] = _numbers(row, msgpack)
        elif isinstance(row, Sparse) or row.dtype.kind == "f":
            shape[name] = _row(row, tensor if msgpack else _as_it_is)
        else:
            shape[name] = {**(tensor(row) if msgpack else {"values": row}), "dtype": dtype}
    return item_shape(item, shape)


def _numbers(row: Row, msgpack: bool) -> Any:
    """One number of a vector; of several, a list."""
    assert not isinstance(row, Sparse), "what restores terms would be numbers"
    return row.tolist() if msgpack else row


def _as_it_is(row: Vector) -> Vector:
    return row


def _row(row: Row, vector: Callable[[Vector], Any]) -> Any:
    if isinstance(row, Sparse):
        return {"indices": vector(row.indices), "values": vector(row.values)}
    return vector(row)


def located(error: ErrorInfo, where: str | None) -> ErrorInfo:
    """`error` with what is at fault as its `param`: the parameter that a worker named, else `where`."""
    named = error.param
    if named is not None:
        where = named if named == "query" else f"params.{named}"
    return msgspec.structs.replace(error, param=where)


async def json_list(
    parts: Iterable[list[Any]], before: dict[str, Any], key: str, after: dict[str, Any]
) -> list[bytes]:
    """``{**before, key: [items of all parts], **after}``, a piece for each part.

    `before` and `after` must not be empty.
    """
    first = b'%b,"%b":[' % (json_bytes(before)[:-1], key.encode())
    return await _between(first, parts, b"],%b" % json_bytes(after)[1:])


async def json_array(parts: Iterable[list[Any]]) -> list[bytes]:
    """``[items of all parts]``, a piece for each part."""
    return await _between(b"[", parts, b"]")


async def _between(first: bytes, parts: Iterable[list[Any]], last: bytes) -> list[bytes]:
    pieces = [first]
    for part in parts:
        if len(pieces) > 1:
            await asyncio.sleep(0)
            pieces.append(b",")
        pieces.append(json_bytes(part)[1:-1])
    pieces.append(last)
    return pieces


async def msgpack_list(
    parts: Iterable[list[dict[str, Any]]], fields: dict[str, Any], key: str, count: int
) -> list[bytes]:
    """``{**fields, key: [items of all parts]}`` in MessagePack, a piece for each part.

    `count`: how many items the parts have in all. `fields` are at most 14.
    https://github.com/msgpack/msgpack/blob/master/spec.md#map-format-family
    """
    encode = _msgpack.encode
    pairs = [encode(part) for field in fields.items() for part in field]
    pieces = [b"".join([bytes([0x80 | len(fields) + 1]), *pairs, encode(key)])]
    pieces.append(b"\xdd" + count.to_bytes(4, "big"))
    for part in parts:
        if len(pieces) > 2:
            await asyncio.sleep(0)
        pieces.append(b"".join([encode(item) for item in part]))
    return pieces

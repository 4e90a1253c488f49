"""Heads over what a graph of an encoder gives: raw numbers, in float32.

Which of a graph's values a head is made of is known here alone, to those who write graphs as to those
who run them. numpy is all it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import ModelLoadFailed
from shoal.spelling import nearest
from shoal.wire.outputs import Output

Floats = NDArray[np.float32]
Lengths = NDArray[np.int64]

#: What a graph may give: hidden states of all tokens [tokens, width] or of each item's first one
#: [items, width], labels of all tokens [tokens, labels], labels of items [items, labels].
Value = Literal["hidden", "first", "tokens", "sequence"]


class Head(msgspec.Struct, frozen=True):
    """A value of a graph, and what is made of it and of the tokens that each item has."""

    value: Value
    compute: Callable[[Floats, Lengths], Output]


def heads_of(outputs: dict[str, dict[str, Any]]) -> dict[str, Head]:
    """By output. Raises `ModelLoadFailed` naming what is not made of graphs.

    outputs: name -> options; without `head` among them the head is named as the output.
    """
    return {name: _head(options.get("head", name), options) for name, options in outputs.items()}


def _head(name: str, options: dict[str, Any]) -> Head:
    if name not in HEADS:
        raise ModelLoadFailed(
            f"the onnx runtime has no head '{name}'{nearest(name, HEADS)}; encoders have "
            f"{', '.join(HEADS)}"
        )
    if name in ("dense", "colbert") and options.get("projections"):
        raise ModelLoadFailed(f"head '{name}': the onnx runtime computes no projections")
    return HEADS[name](options)


def _dense(options: dict[str, Any]) -> Head:
    pooling = options.get("pooling", "mean")
    if pooling not in _POOLINGS:
        raise ModelLoadFailed(
            f"head 'dense' has no pooling '{pooling}'{nearest(pooling, _POOLINGS)}; it has "
            f"{', '.join(_POOLINGS)}"
        )
    return _POOLINGS[pooling]


def _as_it_is(rows: Floats, _: Lengths) -> Output:
    return Output(rows)


def _mean(rows: Floats, lengths: Lengths) -> Output:
    return Output(np.add.reduceat(rows, _starts(lengths)) / lengths[:, None].astype(np.float32))


def _largest(rows: Floats, lengths: Lengths) -> Output:
    return Output(np.maximum.reduceat(rows, _starts(lengths)))


def _last(rows: Floats, lengths: Lengths) -> Output:
    return Output(rows[np.cumsum(lengths) - 1])


def _each(rows: Floats, lengths: Lengths) -> Output:
    return Output(rows, lengths.astype(np.int32))


def _of_length_1(rows: Floats, lengths: Lengths) -> Output:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return _each(rows / np.maximum(norms, np.float32(1e-12)), lengths)


def _starts(lengths: Lengths) -> Lengths:
    return np.cumsum(lengths) - lengths


_POOLINGS = {
    "mean": Head("hidden", _mean),
    "cls": Head("first", _as_it_is),
    "last": Head("hidden", _last),
    "max": Head("hidden", _largest),
}
_SEQUENCE = Head("sequence", _as_it_is)
_TOKENS, _VECTORS = Head("tokens", _each), Head("hidden", _of_length_1)

#: `head` of an output's options -> how it is made.
HEADS: dict[str, Callable[[dict[str, Any]], Head]] = {
    "dense": _dense,
    "colbert": lambda _: _VECTORS,
    "cross-encoder": lambda _: _SEQUENCE,
    "sequence-labels": lambda _: _SEQUENCE,
    "nli": lambda _: _SEQUENCE,
    "token-labels": lambda _: _TOKENS,
}

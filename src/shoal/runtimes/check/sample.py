"""A model that a runtime is tried with, and items for it; whatever it computes.

An item is a `Run` of its own, and batches are made of several: what an item brings beside its tokens
is then everybody's who can make one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.wire.arrays import Array, from_wire, to_wire
from shoal.wire.outputs import Output, Row, Sparse, read_outputs
from shoal.wire.socket import Done, Load, Run

Ids = NDArray[np.int32]
T = TypeVar("T")

#: Beyond the vocabulary of any model.
STRANGE_ID = 2**31 - 1
#: What stands for a field that an item does not have, where others have it.
_NO_IDS: Ids = np.zeros(0, np.int32)
_ZERO: Ids = np.zeros(1, np.int32)
_RISING = np.full(1, -1, np.float32)


class Sample(msgspec.Struct, frozen=True):
    """A model, and what it is asked.

    Attributes:
        load: complete but for the model's name.
        items: a batch of one each, not all of them equal; none for a model that only generates.
        bad_id: of a token that it cannot compute.
        broken: a load that fails, with what its reason must say; None: one of a folder that is not there.
        large: takes longer to load, and holds more; None: `load` itself.
        prompts: ids of texts to go on with, not all of them equal; none for one that generates nothing.
        adapter: a folder with a LoRA of the model.
        tolerance: how far numbers of one item may be apart from batch to batch.
    """

    load: Load
    items: Sequence[Run] = ()
    bad_id: int = STRANGE_ID
    broken: tuple[Load, str] | None = None
    large: Load | None = None
    prompts: Sequence[Sequence[int]] = ()
    adapter: str | None = None
    tolerance: float = 1e-4


def item(ids: Sequence[int], heads: Sequence[str]) -> Run:
    """One item of tokens."""
    return Run(0, "", list(heads), _ids(ids), _ids([len(ids)]))


def spoiled(run: Run, bad_id: int) -> Run | None:
    """The same item with something in it that its model does not take; None: nothing is known."""
    if run.tokens is not None and run.tokens.shape[0]:
        ids = from_wire(run.tokens).copy()
        ids[-1] = bad_id
        return msgspec.structs.replace(run, tokens=to_wire(ids))
    if run.inputs is not None:
        flat = to_wire(np.zeros((1, 1, 1, 1), np.float32))
        return msgspec.structs.replace(run, inputs=[flat])
    return None


def batch_of(number: int, model: str, items: Sequence[Run]) -> Run:
    """One batch of these items, in their order."""
    tokens = [0 if run.tokens is None else run.tokens.shape[0] for run in items]
    return Run(
        number,
        model,
        items[0].heads,
        _joined([run.tokens for run in items], [_NO_IDS] * len(items)),
        _joined([run.lengths for run in items], [_ZERO] * len(items)),
        texts=_all([run.texts for run in items], ""),
        media=_all([run.media for run in items], b""),
        splits=_joined([run.splits for run in items], [_ZERO] * len(items)),
        inputs=_all([run.inputs for run in items], to_wire(_NO_IDS)),
        seen=_joined([run.seen for run in items], [_ZERO] * len(items)),
        marks=_joined([run.marks for run in items], [np.zeros(n, np.uint8) for n in tokens]),
        begins=_all([run.begins for run in items], to_wire(_NO_IDS)),
        temperatures=_joined([run.temperatures for run in items], [_RISING] * len(items)),
    )


def rows_of(done: Done, items: int) -> dict[str, Sequence[Row]]:
    """What each item got of each head. Raises `ProtocolError` where arrays do not add up."""
    outputs: dict[str, Output] = read_outputs(done.arrays, done.lengths, done.indices, items)
    return {head: output.rows() for head, output in outputs.items()}


def apart(row: Row, other: Row) -> float:
    """By how much the numbers of two rows differ at most; infinite where they are not as many."""
    one, two = numbers(row), numbers(other)
    if one.shape != two.shape:
        return math.inf
    return float(np.abs(one - two).max(initial=0.0))


def numbers(row: Row) -> NDArray[np.float64]:
    """All of a row, [n]; of terms their ids too."""
    if isinstance(row, Sparse):
        return np.concatenate([row.indices.astype(np.float64), row.values.astype(np.float64)])
    return np.asarray(row, np.float64).ravel()


def _ids(ids: Sequence[int]) -> Array:
    return to_wire(np.array(ids, np.int32))


def _joined(arrays: list[Array | None], absent: Sequence[NDArray[Any]]) -> Array | None:
    """End to end, with `absent` in the place of those that are not there; None if none is."""
    if all(array is None for array in arrays):
        return None
    parts = zip(arrays, absent, strict=True)
    return to_wire(np.concatenate([no if a is None else from_wire(a) for a, no in parts]))


def _all(parts: list[list[T] | None], absent: T) -> list[T] | None:
    if all(part is None for part in parts):
        return None
    return [absent if part is None else part[0] for part in parts]

"""Which outputs of its model a unit needs, and what is made of them for all of a batch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.catalog.card import Tasks
from shoal.tasks.encode import finish, invalid_rows
from shoal.tasks.score import activated
from shoal.values import EncodeParams, ExtractParams, Params, ScoreParams
from shoal.wire.outputs import Output, Row, Sparse

#: What one sequence got of each output that was asked.
Rows = Mapping[str, Row]

#: What a cross-encoder and an extractor answer with.
SCORE, EXTRACT = "score", "extract"
#: Outputs that have rows for each token of an item.
_RAGGED = frozenset({"multivector"})


def is_ragged(output: str) -> bool:
    """Whether an answer's output has a number of rows each item; also of what restores it."""
    return output.partition(".")[0] in _RAGGED


def needed(params: Params, tasks: Tasks) -> tuple[str, ...]:
    """The outputs of the model that are computed for a unit."""
    match params:
        case EncodeParams(outputs):
            return outputs
        case ScoreParams():
            return (SCORE,)
        case ExtractParams():
            return (EXTRACT,)


class Finished(msgspec.Struct, frozen=True):
    """Rows of some items of a batch as the caller wants them.

    Attributes:
        rows: output -> one entry an item.
        invalid: places of the items whose rows are not finite.
    """

    rows: dict[str, list[Row]]
    invalid: set[int]


def finished(
    outputs: dict[str, Output], chosen: list[int], params: Params, tasks: Tasks
) -> Finished:
    """What a unit's items are answered with, of those rows of a batch's outputs."""
    rows: dict[str, list[Row]] = {}
    invalid: set[int] = set()
    for name in needed(params, tasks):
        rows[name], wrong = _finished(name, outputs[name], chosen, params, tasks)
        invalid.update(wrong)
    return Finished(rows, invalid)


def _finished(
    name: str, output: Output, chosen: list[int], params: Params, tasks: Tasks
) -> tuple[list[Row], list[int]]:
    if isinstance(params, ScoreParams):
        logits = _chosen(output, chosen).reshape(len(chosen))
        activation = "sigmoid" if tasks.score is None else tasks.score.activation
        scores = activated(logits, "identity" if params.raw else activation)
        return cast(list[Row], list(scores)), np.flatnonzero(~np.isfinite(logits)).tolist()
    if name == "dense" and isinstance(params, EncodeParams):
        dense = tasks.encode.dense if tasks.encode is not None else None
        vectors = finish(_chosen(output, chosen), params, dense is None or dense.normalize)
        return list(vectors), invalid_rows(vectors)
    found = output.rows()
    rows = [found[row] for row in chosen]
    return rows, [place for place, row in enumerate(rows) if not is_finite(row)]


def _chosen(output: Output, rows: list[int]) -> NDArray[Any]:
    return output.values if len(rows) == output.items else output.values[rows]


def is_finite(row: Row) -> bool:
    """Whether it holds neither NaN nor infinity."""
    return bool(np.isfinite(row.values if isinstance(row, Sparse) else row).all())

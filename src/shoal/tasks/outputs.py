"""Which outputs of its model a unit needs, and what is made of them for all of a batch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.catalog.tasks import COMPARED, MADE_OF_MULTIVECTOR, Tasks
from shoal.tasks.dtypes import converted
from shoal.tasks.encode import invalid_rows, scaled
from shoal.tasks.score import activated
from shoal.values import (
    EncodeParams,
    ExtractParams,
    GenerateParams,
    Params,
    ScoreParams,
    TokenizeParams,
)
from shoal.wire.outputs import Output, Row, Sparse

#: What one sequence got of each output that was asked.
Rows = Mapping[str, Row]

DENSE, MULTIVECTOR, FDE = "dense", "multivector", MADE_OF_MULTIVECTOR
#: What a cross-encoder and an extractor answer with.
SCORE, EXTRACT = "score", "extract"
#: Outputs that are made of those of the model.
_MADE_OF = {FDE: MULTIVECTOR}


def is_ragged(output: str) -> bool:
    """Whether an answer's output has a number of rows each item; also of what restores it."""
    return output.partition(".")[0] == MULTIVECTOR


def of_tokens(outputs: Iterable[str]) -> bool:
    """Whether any of these is made of the vectors of an item's tokens."""
    return any(_MADE_OF.get(name, name) == MULTIVECTOR for name in outputs)


def needed(params: Params, tasks: Tasks) -> tuple[str, ...]:
    """The outputs of the model that are computed for a unit."""
    match params:
        case EncodeParams(outputs):
            if FDE not in outputs:
                return outputs
            return tuple(dict.fromkeys(_MADE_OF.get(name, name) for name in outputs))
        case ScoreParams():
            return (SCORE if tasks.score is None else COMPARED.get(tasks.score.head, SCORE),)
        case ExtractParams():
            return (EXTRACT,)
        case TokenizeParams() | GenerateParams():
            return ()


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
        output = outputs[name]
        if isinstance(params, ScoreParams):
            made, wrong = _scores(_chosen(output, chosen), params, tasks)
        elif isinstance(params, EncodeParams) and name == DENSE:
            made, wrong = _dense(_chosen(output, chosen), params, tasks)
        else:
            found = output.rows()
            made = {name: [found[row] for row in chosen]}
            wrong = [place for place, row in enumerate(made[name]) if not is_finite(row)]
        rows.update(made)
        invalid.update(wrong)
    return Finished(rows, invalid)


def _scores(
    logits: NDArray[Any], params: ScoreParams, tasks: Tasks
) -> tuple[dict[str, list[Row]], list[int]]:
    activation = "sigmoid" if tasks.score is None else tasks.score.activation
    scores = activated(logits.reshape(-1), "identity" if params.raw else activation)
    return {SCORE: cast(list[Row], list(scores))}, np.flatnonzero(~np.isfinite(scores)).tolist()


def _dense(
    pooled: NDArray[Any], params: EncodeParams, tasks: Tasks
) -> tuple[dict[str, list[Row]], list[int]]:
    dense = tasks.encode.dense if tasks.encode is not None else None
    vectors = scaled(pooled, params, dense is None or dense.normalize)
    if params.dtype in ("float32", "float16"):
        made = converted(DENSE, vectors, params.dtype)
        return {DENSE: list(made[DENSE])}, invalid_rows(made[DENSE])
    # What is not finite has no scale.
    wrong = invalid_rows(vectors)
    made = converted(DENSE, np.nan_to_num(vectors) if wrong else vectors, params.dtype)
    return {name: cast(list[Row], list(array)) for name, array in made.items()}, wrong


def _chosen(output: Output, rows: list[int]) -> NDArray[Any]:
    return output.values if len(rows) == output.items else output.values[rows]


def is_finite(row: Row) -> bool:
    """Whether it holds neither NaN nor infinity."""
    return bool(np.isfinite(row.values if isinstance(row, Sparse) else row).all())

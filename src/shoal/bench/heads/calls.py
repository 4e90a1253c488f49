"""What a program calls that serves nobody: the library of each kind, in its best form.

Decides how texts become a call. Libraries sort texts by length themselves; the one that does not is
given sorted ones. Rows are made after the time that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shoal.bench import libraries
from shoal.bench.apis import Vectors
from shoal.bench.heads.kinds import QUERY, Kind, entity_rows, score_rows, sparse_rows
from shoal.bench.libraries import Dtype
from shoal.bench.quality.pieces import whole
from shoal.wire.objects import Entity

_QUIET = {"show_progress_bar": False}


class Library(msgspec.Struct, frozen=True):
    """A loaded model.

    Attributes:
        call: texts and a batch size -> what the library answers: this is timed.
        rows: of the texts and that, as `kinds` has them.
    """

    call: Callable[[list[str], int], Any]
    rows: Callable[[list[str], Any], Vectors]


def library(kind: Kind, folder: Path, pooling: str, dtype: Dtype) -> Library:
    """The model of `folder`, loaded; `pooling` is that of dense vectors."""
    match kind:
        case "dense":
            return _encoder(libraries.dense(folder, pooling, dtype), np.stack)
        case "multivector":
            return _encoder(libraries.multivector(folder, dtype), np.vstack)
        case "sparse":
            return _sparse(libraries.sparse(folder, dtype))
        case "score":
            return _score(libraries.cross_encoder(folder, dtype))
        case "entities":
            # The aggregation that parts no word, as Shoal does; docs/quality.md compares both.
            return _entities(libraries.entities(folder, "average", dtype))


def _encoder(model: Any, join: Callable[[Any], Vectors]) -> Library:
    return Library(
        lambda texts, size: model.encode(texts, batch_size=size, **_QUIET),
        lambda _, answer: join([*map(_floats, answer)]),
    )


def _floats(row: Any) -> Vectors:
    """numpy has no bfloat16: such rows come as tensors."""
    return np.asarray(row.float() if hasattr(row, "float") else row, np.float32)


def _sparse(model: Any) -> Library:
    def rows(_: list[str], answer: Any) -> Vectors:
        terms = [row.coalesce().float() for row in answer]
        found = [(row.indices()[0].numpy(), row.values().numpy()) for row in terms]
        return sparse_rows(found, model.get_embedding_dimension())

    return Library(
        lambda texts, size: model.encode(texts, batch_size=size, convert_to_tensor=False, **_QUIET),
        rows,
    )


def _score(model: Any) -> Library:
    return Library(
        lambda texts, size: model.predict(
            [(QUERY, text) for text in texts], batch_size=size, **_QUIET
        ),
        lambda _, answer: score_rows(answer),
    )


def _entities(model: Any) -> Library:
    def call(texts: list[str], size: int) -> list[list[dict[str, Any]]]:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        found = model([texts[place] for place in order], batch_size=size)
        placed = dict(zip(order, found, strict=True))
        return [placed[place] for place in range(len(texts))]

    def rows(texts: list[str], answer: list[list[dict[str, Any]]]) -> Vectors:
        pairs = zip(texts, answer, strict=True)
        return entity_rows(whole(text, [*map(_entity, found)]) for text, found in pairs)

    return Library(call, rows)


def _entity(found: dict[str, Any]) -> Entity:
    start, end = int(found["start"]), int(found["end"])
    return Entity(found["word"], found["entity_group"], float(found["score"]), start, end)

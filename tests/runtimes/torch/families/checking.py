"""Checks a head of a family in any batch composition: `worst_error`.

Items of mixed lengths go alone, all together, and in drawn batches with repeats that take several
passes; where a family knows token types, half of the items are pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from shoal.runtimes.batch import Batch, Outputs
from shoal.runtimes.torch.model import Model
from shoal.wire.outputs import Output, Sparse
from shoal.wire.socket import Load
from tests.runtimes.torch import made
from tests.runtimes.torch.families.cells import HEADS, Answer, Cell, Floats
from tests.runtimes.torch.families.row import Row

_LENGTHS = [7, 1, 64, 3, 3, 20, 7, 33, 2, 64]


class Item(NamedTuple):
    tokens: list[int]
    split: int


class Loaded(Protocol):
    """A loaded model of any kind of runtime."""

    def run(self, batch: Batch, names: list[str]) -> Outputs: ...


Build = Callable[[Load], Loaded]


def _in_torch(load: Load) -> Model:
    return Model(load, torch.device("cpu"))


def worst_error(row: Row, head: str, folder: Path) -> float:
    """The largest error of any item, in any batch, under any of the row's variants."""
    return max(
        error(row, changes, head, cell, folder / f"{number}-{variant}")
        for number, cell in enumerate(HEADS[head])
        for variant, changes in enumerate(row.variants)
    )


def error(
    row: Row,
    changes: dict[str, Any],
    head: str,
    cell: Cell,
    folder: Path,
    build: Build = _in_torch,
) -> float:
    """The largest error of any item, in any batch, of one variant."""
    changes = changes | cell.config
    reference = row.make(cell.kind, folder, **changes)
    answer = cell.prepare(folder, reference.config)
    items = list(_items(row, reference.config.vocab_size))
    expected = [_expected(row, reference, answer, item) for item in items]
    heads = {"out": {"head": head, **cell.options}}
    load = made.load(folder, family=row.family, heads=heads, max_tokens=row.max_tokens)
    model = build(load)
    return max(
        cell.measure.error(ours, expected[number])
        for batch in _batches(len(items))
        for number, ours in zip(
            batch, _ours(model, [items[n] for n in batch], expected[0].shape[-1]), strict=True
        )
    )


def _items(row: Row, vocabulary: int) -> Iterator[Item]:
    rng = np.random.default_rng(3)
    for number, length in enumerate(_LENGTHS):
        tokens = rng.integers(row.first_token, vocabulary, min(length, row.max_tokens)).tolist()
        paired = row.types and number % 2 == 0 and length > 1
        yield Item(tokens, int(rng.integers(1, length)) if paired else 0)


def _batches(items: int) -> Iterator[list[int]]:
    yield from ([number] for number in range(items))
    yield list(range(items))
    rng = np.random.default_rng(5)
    for size in (3, 150):  # 150 take two passes
        yield rng.integers(0, items, size).tolist()


def _expected(row: Row, reference: Any, answer: Answer, item: Item) -> Floats:
    ids = torch.tensor([item.tokens])
    types = (torch.arange(len(item.tokens))[None] >= item.split).long() * bool(item.split)
    with torch.inference_mode():
        return answer(row.reference(reference, ids, types), item.tokens).numpy()


def _ours(model: Loaded, items: list[Item], columns: int) -> Iterator[Floats]:
    batch = Batch(
        np.concatenate([item.tokens for item in items]).astype(np.int32),
        np.array([len(item.tokens) for item in items], np.int64),
        np.array([item.split for item in items], np.int32),
    )
    said = model.run(batch, ["out"])
    assert not said.failed
    return rows_of(said.outputs["out"], columns)


def rows_of(output: Output, columns: int) -> Iterator[Floats]:
    """What an output says of each item; of terms, a row of `columns`."""
    for row in output.rows():
        if isinstance(row, Sparse):
            spread = np.zeros(columns, np.float32)
            spread[row.indices] = row.values
            yield spread
        else:
            yield row

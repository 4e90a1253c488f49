"""The head of spans as the tests see it: a column of the table in docs/models.md.

Half of an item's tokens are labels and words in turn, so that items of one length have other
numbers of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shoal.runtimes.batch import Batch
from shoal.runtimes.torch.model import Model
from tests.runtimes.torch import gliner, made
from tests.runtimes.torch.families.cells import LABELS, Floats
from tests.runtimes.torch.families.row import Row

_LENGTHS = [9, 4, 61, 9, 33, 9, 61, 5]
#: Narrower rows and one LSTM, as most published models have; two and the older spans; none.
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"hidden_size": 32, "num_rnn_layers": 2, "span_mode": "marker"},
    {"num_rnn_layers": 0, "max_width": 70},
)


def worst_error(row: Row, folder: Path) -> float:
    """The largest error of any item, in any batch, under any of the variants."""
    return max(_error(row, folder / f"{n}", v) for n, v in enumerate(VARIANTS))


def _error(row: Row, folder: Path, changes: dict[str, Any]) -> float:
    encoder = row.make("encoder", folder)
    gliner.wrap(folder, **changes)
    written = gliner.Written(folder)
    items = list(_items(row, encoder.config.vocab_size))
    expected = []
    with torch.inference_mode():
        for tokens, marks in items:
            ids = torch.from_numpy(tokens).long()[None]
            said = row.reference(encoder, ids, torch.zeros_like(ids))
            expected.append(written.logits(said.last_hidden_state[0], marks).flatten().numpy())
    load = made.load(
        folder, family=row.family, heads={"out": {"head": "spans"}}, max_tokens=row.max_tokens
    )
    model = Model(load, torch.device("cpu"))
    rng = np.random.default_rng(5)
    batches = [[number] for number in range(len(items))]
    batches += [list(range(len(items))), rng.integers(0, len(items), 150).tolist()]
    return max(
        LABELS.error(ours, expected[number])
        for batch in batches
        for number, ours in zip(batch, _ours(model, [items[n] for n in batch]), strict=True)
    )


def _items(row: Row, vocabulary: int) -> Iterator[tuple[NDArray[np.int32], NDArray[np.uint8]]]:
    rng = np.random.default_rng(3)
    for length in _LENGTHS:
        tokens = rng.integers(row.first_token, vocabulary, length).astype(np.int32)
        marks = np.zeros(length, np.uint8)
        chosen = rng.permutation(length)[: max(2, length // 2)]
        marks[chosen] = 1
        marks[chosen[: 1 + len(chosen) // 4]] = 2
        yield tokens, marks


def _ours(model: Model, items: list[tuple[NDArray[np.int32], NDArray[np.uint8]]]) -> list[Floats]:
    batch = Batch(
        np.concatenate([tokens for tokens, _ in items]),
        np.array([len(tokens) for tokens, _ in items], np.int64),
        marks=np.concatenate([marks for _, marks in items]),
    )
    said = model.run(batch, ["out"])
    assert not said.failed
    return [np.asarray(row) for row in said.outputs["out"].rows()]

"""Shoal's side: the converted folder in the PyTorch runtime, by the heads of its card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shoal.bench.zoo.closeness import Floats
from shoal.bench.zoo.samples import Sample
from shoal.catalog.card import Card, Profile
from shoal.wire.outputs import Row, Sparse, read_outputs
from shoal.worker.batches import packed
from shoal.worker.models import heads_of, load_of


def converted(
    card: Card, folder: Path, samples: list[Sample], threads: int
) -> dict[str, list[Floats]]:
    """What the model answers in float32: head -> [rows, width] of each sample, all in one batch.

    Raises:
        ModelLoadFailed: the folder is no model that Shoal computes.
    """
    from shoal.runtimes.torch.runtime import TorchRuntime  # imports torch

    heads = _heads(card)
    load = load_of(card, folder, Profile(threads=threads))
    runtime = TorchRuntime(threads=threads)
    runtime.load(msgspec.structs.replace(load, heads=heads, sequences=0))
    done = runtime.run(packed(1, card.name, [*heads], [sample.sequence for sample in samples]))
    outputs = read_outputs(done.arrays, done.lengths, done.indices, len(samples))
    return {head: [_floats(row) for row in outputs[head].rows()] for head in heads}


def _heads(card: Card) -> dict[str, dict[str, Any]]:
    """Those of the card; states, of a model that writes. Of speech, the encoder's states too, and texts
    without times: words follow from weights, but times from rules that each library has its own of."""
    if card.tasks.generate is not None:
        return {"dense": {"head": "dense", "pooling": "mean"}}
    heads = heads_of(card)
    if "audio" not in card.inputs:
        return heads
    return {"dense": {"head": "dense"}, "extract": heads["extract"] | {"times": False}}


def _floats(row: Row) -> Floats:
    """Of a transcript, its ids with their end: two numbers of another kind come before them."""
    if isinstance(row, Sparse):
        return row.indices[2:, None].astype(np.float32)
    return np.atleast_2d(row).astype(np.float32)

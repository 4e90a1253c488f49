"""Real models of the zoo against the reference library: mixed lengths, all in one batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from shoal.catalog.card import Profile
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import to_wire
from shoal.wire.outputs import Row, Sparse, read_outputs
from shoal.wire.socket import Run
from shoal.worker.models import load_of
from tests.runtimes.torch.made import Floats

TEXTS = [
    "Maria Schneider wrote from Berlin on 3 March 2019: maria@example.org, +49 30 1234567.",
    "a",
    "The capital of France is Paris.",
    "She go to school every days, and he have two book. " * 8,
    "Herr Klaus Müller wohnt in der Lindenstraße 14, 10969 Berlin.",
    "How many tokens fit into one batch before a device runs out of memory? " * 20,
]
QUERY = "what is the capital of france"


class Asked:
    """A zoo model: what it answers, and its items by its own tokenizer."""

    def __init__(self, name: str, kind: Any) -> None:
        self._card = Catalog.load().card(name)
        self.folder = fetch(self._card, cache_dir=None, offline=False)
        self.model = kind.from_pretrained(self.folder, dtype=torch.float32).eval()
        tokenizer = Tokenizer.from_file(str(Path(self.folder) / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._card.max_tokens)
        self._tokenizer = tokenizer

    def encoded(self, pairs: bool) -> list[Any]:
        return [self._tokenizer.encode(*((QUERY, t) if pairs else (t,))) for t in TEXTS]

    def ours(self, output: str, items: list[Any]) -> list[Row]:
        runtime = TorchRuntime()
        runtime.load(load_of(self._card, self.folder, Profile()))
        splits = [item.type_ids.index(1) if 1 in item.type_ids else 0 for item in items]
        arrays = (
            to_wire(np.array(numbers, np.int32))
            for numbers in (
                [token for item in items for token in item.ids],
                [len(item.ids) for item in items],
                splits,
            )
        )
        tokens, lengths, split = arrays
        done = runtime.run(Run(1, self._card.name, [output], tokens, lengths, splits=split))
        assert not done.failed
        found = read_outputs(done.arrays, done.lengths, done.indices, len(items))[output]
        return list(found.rows())

    def theirs(self, item: Any) -> Floats:
        """Logits of one item by itself."""
        given = {"input_ids": torch.tensor([item.ids])}
        if self.model.config.model_type == "bert":
            given["token_type_ids"] = torch.tensor([item.type_ids])
        with torch.inference_mode():
            return np.asarray(self.model(**given).logits[0], np.float32)


def test_terms() -> None:
    asked = Asked("splade-tiny", AutoModelForMaskedLM)
    items = asked.encoded(pairs=False)
    for item, row in zip(items, asked.ours("sparse", items), strict=True):
        assert isinstance(row, Sparse)
        expected = np.log1p(np.maximum(asked.theirs(item), 0)).max(0)
        assert set(row.indices[row.values > 1e-4]) == set(np.flatnonzero(expected > 1e-4))
        np.testing.assert_allclose(row.values, expected[row.indices], atol=2e-5)


def test_scores_of_pairs() -> None:
    asked = Asked("ms-marco-MiniLM-L-12-v2", AutoModelForSequenceClassification)
    items = asked.encoded(pairs=True)
    ours = np.stack([np.asarray(row) for row in asked.ours("score", items)])
    theirs = np.stack([asked.theirs(item) for item in items])
    np.testing.assert_allclose(ours, theirs, atol=2e-4)
    assert ours.argmax() == 2


@pytest.mark.parametrize("name", ["rampart-pii", "gector-distilbert"])
def test_labels_of_tokens(name: str) -> None:
    asked = Asked(name, AutoModelForTokenClassification)
    items = asked.encoded(pairs=False)
    for item, row in zip(items, asked.ours("extract", items), strict=True):
        expected, found = asked.theirs(item), np.asarray(row)
        np.testing.assert_array_equal(found.argmax(1), expected.argmax(1))
        np.testing.assert_allclose(found, expected, atol=5e-4)

"""The real all-MiniLM-L6-v2 against sentence-transformers: alone, mixed, in any company."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made

LIMIT = 256

TEXTS = [
    "a",
    "",
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog.",
    "Где находится библиотека?",
    "水は方円の器に随う",
    "\u0301" * 40,
    "def f(x):\n    return x ** 2  # squared",
    "Attention is all you need. " * 5,
    "one two three four five six seven eight nine ten " * 12,
    "a text that is longer than the model takes " * 60,
    "1234567890 " * 20,
]


@pytest.fixture(scope="module")
def folder() -> Path:
    return fetch(Catalog.load().card("all-MiniLM-L6-v2"), cache_dir=None, offline=False)


@pytest.fixture(scope="module")
def loaded(folder: Path) -> TorchRuntime:
    runtime = TorchRuntime()
    runtime.load(made.load(folder, max_tokens=LIMIT))
    return runtime


@pytest.fixture(scope="module")
def items(folder: Path) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LIMIT)
    return [encoding.ids for encoding in tokenizer.encode_batch(TEXTS)]


@pytest.fixture(scope="module")
def reference(folder: Path) -> made.Floats:
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = LIMIT
    # One at a time, so that the reference itself sees no padding.
    return np.stack([np.asarray(model.encode(text), np.float32) for text in TEXTS])


def test_each_text_alone(
    loaded: TorchRuntime, items: list[list[int]], reference: made.Floats
) -> None:
    alone = np.concatenate([made.vectors(made.run(loaded, [item])) for item in items])
    assert made.cosines(alone, reference).min() > 0.999999


def test_all_in_one_batch(
    loaded: TorchRuntime, items: list[list[int]], reference: made.Floats
) -> None:
    together = made.vectors(made.run(loaded, items))
    assert made.cosines(together, reference).min() > 0.999999


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=12))
def test_any_company(
    loaded: TorchRuntime, items: list[list[int]], reference: made.Floats, chosen: list[int]
) -> None:
    ours = made.vectors(made.run(loaded, [items[n] for n in chosen]))
    assert made.cosines(ours, reference[chosen]).min() > 0.999999


def test_more_tokens_than_one_pass(
    loaded: TorchRuntime, items: list[list[int]], reference: made.Floats
) -> None:
    repeats = 4
    done = made.run(loaded, items * repeats)
    assert done.computed_tokens > 2048
    assert done.computed_tokens <= sum(map(len, items)) * repeats * (1 + 1 / 16)
    ours = made.vectors(done)
    assert made.cosines(ours, np.tile(reference, (repeats, 1))).min() > 0.999999


def test_bfloat16_is_near(folder: Path, items: list[list[int]], reference: made.Floats) -> None:
    runtime = TorchRuntime()
    runtime.load(made.load(folder, max_tokens=LIMIT, dtype="bfloat16"))
    ours = made.vectors(made.run(runtime, items))
    assert made.cosines(ours, reference).min() > 0.999

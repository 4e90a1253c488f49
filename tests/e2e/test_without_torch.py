"""Other runtimes of encoders under `shoal serve`, where PyTorch is not installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from shoal import Client
from shoal.bench.serving import Serving
from shoal.runtimes.packages import missing
from tests.e2e.conftest import MODEL
from tests.e2e.test_numerics import ODD


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables under which no process finds torch."""
    hidden = tmp_path_factory.mktemp("hidden")
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    path = os.pathsep.join([str(hidden), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path}


@pytest.fixture(scope="module", params=["candle", "onnx"])
def serving(request: pytest.FixtureRequest, without_torch: dict[str, str]) -> Iterator[Serving]:
    """The card's profiles have the names of their kinds."""
    if (lacking := missing(request.param)) is not None:
        pytest.skip(lacking)
    with Serving([MODEL], without_torch, profile=request.param) as serving:
        yield serving


def test_vectors_are_those_of_the_reference(serving: Serving, folder: Path) -> None:
    reference = SentenceTransformer(str(folder), device="cpu").encode(ODD)
    with Client(serving.url, timeout_s=300) as client:
        ours = client.encode(MODEL, ODD)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    wanted = reference / np.linalg.norm(reference, axis=1, keepdims=True)
    assert (ours * wanted).sum(axis=1).min() >= 0.99999


def test_what_the_worker_says_of_texts_is_the_same_as_ever(serving: Serving) -> None:
    """Counted, cut and quantized as for any runtime."""
    body = {"items": ["two words", "word " * 600], "params": {"dtype": "int8"}}
    answer = httpx.post(f"{serving.url}/v1/encode/{MODEL}", json=body, timeout=60).json()
    assert [(item["tokens"], item["truncated"]) for item in answer["items"]] == [
        (4, False),
        (256, True),
    ]
    assert [item["dense"]["dtype"] for item in answer["items"]] == ["int8"] * 2


def test_a_folder_of_ones_own(without_torch: dict[str, str], folder: Path, tmp_path: Path) -> None:
    """It has no card, and the one that is inferred has no profiles."""
    (tmp_path / "own").symlink_to(folder)
    reference = SentenceTransformer(str(folder), device="cpu").encode(ODD)
    reference /= np.linalg.norm(reference, axis=1, keepdims=True)
    with Serving([str(tmp_path / "own")], without_torch) as serving, Client(serving.url) as client:
        ours = client.encode("own", ODD)
    assert (ours * reference).sum(axis=1).min() >= 0.99999

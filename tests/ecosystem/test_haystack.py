"""Haystack's components against real models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shoal
from tests.ecosystem.conftest import ENCODER, Run
from tests.ecosystem.snippets import MISSING

haystack = pytest.importorskip("haystack", reason=MISSING)


def test_openai_s_embedders(run: Run, client: shoal.Client, vectors: np.ndarray) -> None:
    names = run("haystack-ai")
    got = [document.embedding for document in names["found"]]
    np.testing.assert_allclose(got, vectors, atol=1e-5)
    np.testing.assert_allclose(names["query"], vectors[0], atol=1e-5)
    texts = ["", "word " * 2000, *(f"text {i}" for i in range(60))]
    answer = names["documents"].run([haystack.Document(content=text) for text in texts])
    assert answer["meta"]["usage"]["prompt_tokens"] == 2 + 256 + 60 * 4
    got = [document.embedding for document in answer["documents"]]
    np.testing.assert_allclose(got, client.encode(ENCODER, texts), atol=1e-5)


def test_hugging_face_s_components(run: Run, vectors: np.ndarray, best: dict[str, float]) -> None:
    names = run("huggingface-api-haystack")
    np.testing.assert_allclose(names["query"], vectors[0], atol=1e-5)
    check(names["best"], best)


def test_cohere_s_ranker(run: Run, best: dict[str, float]) -> None:
    check(run("cohere-haystack")["best"], best)


def check(documents: list[Any], best: dict[str, float]) -> None:
    got = {document.content: document.score for document in documents}
    assert list(got) == list(best)
    assert got == pytest.approx(best, abs=1e-5)

"""mteb on a task with local data: as the reference library in-process, so through the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sentence_transformers import CrossEncoder, SentenceTransformer

from shoal.bench.serving import Serving
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from tests.ecosystem import snippets
from tests.ecosystem.conftest import ENCODER, RERANKER, Run

mteb = pytest.importorskip("mteb", reason=snippets.MISSING)

# Its own, of a model of the reference library.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The fill_missing parameter:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The `get_sentence_embedding_dimension`:FutureWarning"),
]


@pytest.fixture(scope="module")
def task(run: Run) -> dict[str, Any]:
    return run("mteb, a task with local data")


@pytest.fixture(scope="module")
def open_serving() -> Iterator[Serving]:
    with Serving([ENCODER, RERANKER], profile="default") as running:  # numbers of the reference
        yield running


def folder(model: str) -> str:
    return str(fetch(Catalog.load().card(model), cache_dir=None, offline=False))


def scores(model: Any, task: Any) -> dict[str, float]:
    """All the metrics of the task."""
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    (found,) = result.task_results[0].scores["test"]
    return {name: value for name, value in found.items() if isinstance(value, float)}


def test_retrieval_scores_as_the_reference(task: dict[str, Any]) -> None:
    wanted = scores(SentenceTransformer(folder(ENCODER), device="cpu"), task["SeaRetrieval"]())
    assert wanted["ndcg_at_10"] > 0.8
    assert task["score"] == pytest.approx(wanted["ndcg_at_10"], abs=1e-6)
    got = task["result"].task_results[0].scores["test"][0]
    assert {name: got[name] for name in wanted} == pytest.approx(wanted, abs=1e-4, nan_ok=True)


def test_mteb_s_own_wrappers(open_serving: Serving, task: dict[str, Any]) -> None:
    names = snippets.run("mteb, its own wrappers", open_serving.url)
    retrieval = task["SeaRetrieval"]
    wanted = scores(SentenceTransformer(folder(ENCODER), device="cpu"), retrieval())
    got = scores(names["encoder"], retrieval())
    assert got == pytest.approx(wanted, abs=1e-4, nan_ok=True)
    reference = CrossEncoder(folder(RERANKER), device="cpu")
    ranked = reranking(retrieval)
    wanted = by_order(scores(reference, ranked()))
    assert wanted["ndcg_at_10"] > 0.7
    assert by_order(scores(names["reranker"], ranked())) == pytest.approx(wanted, abs=1e-6)


def by_order(metrics: dict[str, float]) -> dict[str, float]:
    """Without those that rest on the scores' scale: logits there, 0 to 1 here."""
    return {name: value for name, value in metrics.items() if not name.startswith("nauc")}


def reranking(retrieval: Any) -> Any:
    """The task with every text as a candidate of every question."""

    class SeaReranking(retrieval):  # type: ignore[misc]
        metadata = retrieval.metadata.model_copy(
            update={"name": "SeaReranking", "type": "Reranking"}
        )

        def load_data(self, **kwargs: Any) -> None:
            super().load_data(**kwargs)
            split = self.dataset["default"]["test"]
            split["top_ranked"] = {key: list(self.corpus) for key in self.questions}

    return SeaReranking

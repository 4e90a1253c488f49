"""Scoring, entities and terms of real models, through the API and official clients."""

from __future__ import annotations

from collections.abc import Iterator

import cohere
import httpx
import numpy as np
import pytest
from huggingface_hub import InferenceClient, close_session
from sentence_transformers import CrossEncoder

import shoal
from shoal.bench.serving import Serving
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.client import Sparse
from shoal.errors import InvalidRequest

RERANKER, ENTITIES, TERMS = "ms-marco-MiniLM-L-12-v2", "rampart-pii", "splade-tiny"
QUERY = "what lives in the sea?"
DOCUMENTS = [
    "The moon is far away.",
    "Fish live in the sea.",
    "",
    "Whales live in the ocean, which is a sea. " * 80,
    "Die Fische leben im Meer 🐟.",
]


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """In float32, as the reference computes."""
    with Serving([RERANKER, ENTITIES, TERMS], profile="default") as running:
        yield running


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[shoal.Client]:
    with shoal.Client(serving.url) as made:
        yield made


@pytest.fixture(scope="module")
def logits() -> np.ndarray:
    """The reference library's, of the same files."""
    folder = fetch(Catalog.load().card(RERANKER), cache_dir=None, offline=False)
    reference = CrossEncoder(str(folder), device="cpu")
    return np.asarray(reference.predict([(QUERY, text) for text in DOCUMENTS]))


def test_scores_equal_the_reference_library(client: shoal.Client, logits: np.ndarray) -> None:
    scored = client.score_detailed(RERANKER, QUERY, DOCUMENTS)
    np.testing.assert_allclose(scored.scores, logits, atol=2e-4)
    assert scored.truncated.tolist() == [False, False, False, True, False]
    assert scored.tokens[3] == 512


def test_in_8_bits_the_order_is_the_same_and_scores_are_near(logits: np.ndarray) -> None:
    """They are from -11 to 7 here, and of 160 pairs of the handbook none was more than 0.26 off."""
    with (
        Serving([RERANKER], profile="cpu-int8") as running,
        shoal.Client(running.url) as asking,
    ):
        scores = asking.score(RERANKER, QUERY, DOCUMENTS)
    assert np.argsort(scores).tolist() == np.argsort(logits).tolist()
    assert 1e-4 < np.abs(scores - logits).max() < 0.5


def test_the_official_rerank_client(serving: Serving, logits: np.ndarray) -> None:
    with cohere.ClientV2("any", base_url=serving.url) as official:
        answer = official.rerank(model=RERANKER, query=QUERY, documents=DOCUMENTS, top_n=3)
    best = np.argsort(-logits)[:3]
    assert [result.index for result in answer.results] == best.tolist()
    got = [result.relevance_score for result in answer.results]
    np.testing.assert_allclose(got, 1 / (1 + np.exp(-logits[best])), atol=1e-4)


def test_entities_lie_where_they_say(client: shoal.Client, serving: Serving) -> None:
    text = "😀 My name is Ada Lovelace, write to ada@example.com."
    (found,) = client.extract(ENTITIES, [text])
    assert found.entities is not None
    assert [text[e.start : e.end] for e in found.entities] == [e.text for e in found.entities]
    assert {"Ada", "Lovelace", "ada@example.com"} <= {e.text for e in found.entities}
    official = InferenceClient(token="any")
    hub = official.token_classification(text, model=f"{serving.url}/tei/{ENTITIES}")
    close_session()  # it is one of the whole process
    assert [(e.entity_group, e.word, e.start, e.end) for e in hub] == [
        (e.label, e.text, e.start, e.end) for e in found.entities
    ]


def test_a_schema_is_filled_in(client: shoal.Client) -> None:
    text = "My name is Ada Lovelace, write to ada@example.com. My zip code is 10115. Babbage"
    schema = {
        "type": "object",
        "properties": {
            "person": {
                "type": "object",
                "properties": {
                    "givenName": {"type": "string", "x-label": "GIVEN_NAME"},
                    "mail": {"type": "string", "title": "Email"},
                },
            },
            "surnames": {"type": "array", "items": {"type": "string"}, "x-label": "surname"},
            "zip_code": {"type": "integer"},
            "phone": {"type": ["string", "null"]},
        },
    }
    (found,) = client.extract(ENTITIES, [text], schema=schema)
    assert found.fields is not None
    assert found.evidence is not None
    assert found.fields["person"] == {"givenName": "Ada", "mail": "ada@example.com"}
    assert "Lovelace" in found.fields["surnames"]
    assert found.fields["zip_code"] == 10115
    assert found.fields["phone"] is None
    assert [text[e.start : e.end] for e in found.evidence] == [e.text for e in found.evidence]
    with pytest.raises(InvalidRequest, match="'colour' is none of this model's labels"):
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
        client.extract(ENTITIES, [text], schema=schema)


def test_terms_are_the_same_on_every_route(client: shoal.Client, serving: Serving) -> None:
    encoded = client.encode_detailed(TERMS, ["a fish in the sea"])
    (terms,) = encoded.outputs["sparse"]
    assert isinstance(terms, Sparse)
    assert len(terms.indices) > 3
    assert (terms.values > 0).all()
    (tei,) = httpx.post(
        f"{serving.url}/embed_sparse?model={TERMS}", json={"inputs": "a fish in the sea"}
    ).json()
    assert [term["index"] for term in tei] == terms.indices.tolist()
    np.testing.assert_allclose([term["value"] for term in tei], terms.values, rtol=1e-6)


def test_a_model_asked_for_another_task_names_those_that_do_it(serving: Serving) -> None:
    response = httpx.post(
        f"{serving.url}/v1/score/{ENTITIES}", json={"query": QUERY, "items": ["a"]}
    )
    message = response.json()["error"]["message"]
    assert response.status_code == 400
    assert f"cannot score: it does extract (token-labels); ask one that does: {RERANKER}" in message

"""text-embeddings-inference's own shapes."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.errors import DeadlineExceeded, Overloaded, Unavailable
from shoal.gateway.compat.tei.bodies import tei
from shoal.values import EncodeParams, ExtractParams, ScoreParams, TokenizeParams
from tests.gateway.conftest import Served
from tests.gateway.scripted import DIM, ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_embed_gives_a_vector_a_text(gateway: Served, worker: ScriptedWorker) -> None:
    one = await gateway.post("/embed?model=tiny", {"inputs": "abc"})
    assert one.json() == [[5.0] * DIM]
    body = {
        "inputs": ["a", "bcd"],
        "truncate": False,
        "normalize": False,
        "prompt_name": "query",
        "dimensions": 4,
        "truncation_direction": "Right",
    }
    assert (await gateway.post("/embed?model=tiny", body)).json() == [[3.0] * 4, [5.0] * 4]
    first, second = (unit.params for unit in worker.units)
    assert first == EncodeParams(("dense",), normalize=True)
    assert second == EncodeParams(("dense",), 4, "float32", False, False, "query")
    ids = await gateway.post("/embed?model=tiny", {"inputs": [[101, 7], [5]]})
    assert len(ids.json()) == 2
    assert worker.units[2].items == [b"[101,7]", b"[5]"]


async def test_vectors_of_tokens_and_of_terms(gateway: Served) -> None:
    every = await gateway.post("/embed_all?model=every-vector", {"inputs": "a"})
    assert every.json() == [[[3.0] * 4] * 2]
    sparse = await gateway.post("/embed_sparse?model=every-vector", {"inputs": ["a", "b"]})
    assert sparse.json() == [[{"index": 3, "value": 3.0}, {"index": 7, "value": 3.0}]] * 2


async def test_similarity_is_the_product_of_vectors(gateway: Served) -> None:
    body = {
        "inputs": {"source_sentence": "a", "sentences": ["a", "abc"]},
        "parameters": {"truncate": True, "prompt_name": "query"},
    }
    assert (await gateway.post("/similarity?model=tiny", body)).json() == [9.0 * DIM, 15.0 * DIM]


async def test_tokenize_and_decode(gateway: Served, worker: ScriptedWorker) -> None:
    special = {"id": 1, "text": "[CLS]", "special": True, "start": None, "stop": None}

    def whole(text: str, stop: int) -> dict[str, Any]:
        return {"id": 7, "text": text, "special": False, "start": 0, "stop": stop}

    one = await gateway.post("/tokenize?model=tiny", {"inputs": "ä"})
    assert one.json() == [[special, whole("ä", 2)]]
    body = {"inputs": ["a", "bc"], "add_special_tokens": False, "prompt_name": "query"}
    both = await gateway.post("/tei/reranker/tokenize", {"inputs": ["a", "bc"]})
    assert both.json() == [[special, whole("a", 1)], [special, whole("bc", 2)]]
    await gateway.post("/tokenize?model=tiny", body)
    assert [unit.params for unit in worker.units] == [
        TokenizeParams(),
        TokenizeParams(),
        TokenizeParams(False, "query"),
    ]
    single = await gateway.post("/decode?model=tiny", {"ids": [101, 7]})
    assert single.json() == ["[101,7]"]
    several = {"ids": [[101], [7]], "skip_special_tokens": False}
    assert (await gateway.post("/decode?model=tiny", several)).json() == ["[101]", "[7]"]
    assert [unit.params for unit in worker.units[3:]] == [
        TokenizeParams(special=False),
        TokenizeParams(special=True),
    ]


async def test_rerank_orders_texts(gateway: Served, worker: ScriptedWorker) -> None:
    body = {"query": "q", "texts": ["a", "abc", "xyz"]}
    ranks = (await gateway.post("/rerank?model=reranker", body)).json()
    assert ranks[0] == {"index": 1, "score": pytest.approx(0.05)}
    assert [rank["index"] for rank in ranks] == [1, 2, 0]
    more = {**body, "return_text": True, "raw_scores": True, "truncate": False}
    ranks = (await gateway.post("/rerank?model=reranker", more)).json()
    assert [rank["text"] for rank in ranks] == ["abc", "xyz", "a"]
    assert worker.units[1].params == ScoreParams(b'"q"', raw=True, truncate=False)


async def test_predict_gives_labels(gateway: Served, worker: ScriptedWorker) -> None:
    labels = [{"score": 0.75, "label": "harassment"}, {"score": 0.375, "label": "calm"}]
    path = "/predict?model=classifier"
    assert (await gateway.post(path, {"inputs": "a"})).json() == labels
    assert (await gateway.post(path, {"inputs": ["a"]})).json() == labels
    assert (await gateway.post(path, {"inputs": [["a"], ["b"]]})).json() == [labels] * 2
    assert worker.units[0].params == ExtractParams()


async def test_the_root_does_what_the_body_says(gateway: Served) -> None:
    assert (await gateway.post("/?model=tiny", {"inputs": "a"})).json() == [[3.0] * DIM]
    ranks = await gateway.post("/?model=reranker", {"query": "q", "texts": ["a"]})
    assert [rank["index"] for rank in ranks.json()] == [0]
    sentences = {"source_sentence": "a", "sentences": ["b"]}
    assert (await gateway.post("/?model=tiny", {"inputs": sentences})).json() == [9.0 * DIM]
    labels = (await gateway.post("/?model=classifier", {"inputs": "a"})).json()
    assert labels[0]["label"] == "harassment"


async def test_a_base_url_for_each_model(gateway: Served) -> None:
    assert (await gateway.post("/tei/org/tiny.model/embed", {"inputs": "a"})).json() == [[3.0] * 8]
    assert (await gateway.post("/tei/org/tiny.model", {"inputs": "a"})).json() == [[3.0] * 8]
    assert (await gateway.post("/tei/tiny/", {"inputs": "a"})).json() == [[3.0] * 8]
    info = (await gateway.http.get("/tei/org/tiny.model/info")).json()
    assert info["model_id"] == "org/tiny.model"
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert (info["max_input_length"], info["max_client_batch_size"]) == (256, 8192)
    assert (await gateway.http.get("/tei/tiny/health")).status_code == 200
    assert (await gateway.http.get("/tei/tiny/embed")).status_code == 405
    assert (await gateway.http.get("/tei/tiny")).status_code == 405


async def test_info_and_health(gateway: Served) -> None:
    reranker = (await gateway.http.get("/info?model=reranker")).json()
    assert set(reranker["model_type"]) == {"reranker"}
    classifier = (await gateway.http.get("/info?model=classifier")).json()
    assert set(classifier["model_type"]) == {"classifier"}
    health = await gateway.http.get("/health")
    assert (health.status_code, health.content) == (200, b"")


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (
            "/embed",
            {"inputs": "a"},
            "name a model that can encode: one of every-vector, instructed, org/tiny",
        ),
        ("/info", None, "name a model: one of"),
        ("/embed?model=tiny", {"inputs": 3}, "inputs must be a string"),
        ("/embed?model=tiny", {"inputs": []}, "at least one"),
        ("/embed?model=tiny", {"inputs": ["a", "bad"]}, "inputs[1]: 300 tokens"),
        ("/embed?model=tiny", {"inputs": "a", "dimensions": 9}, "1 to 8"),
        ("/embed?model=tiny", {"inputs": "a", "prompt_name": "qury"}, "'query'"),
        ("/embed?model=tiny", {"inputs": "a", "truncation_direction": "Left"}, "at their end"),
        ("/embed?model=ner", {"inputs": "a"}, "cannot encode"),
        ("/embed_all?model=tiny", {"inputs": "a"}, "no output 'multivector'"),
        ("/rerank?model=reranker", {"query": "q", "texts": ["a", "bad"]}, "texts[1]: 300 tokens"),
        ("/rerank?model=reranker", {"texts": ["a"]}, "'query' is missing"),
        ("/predict?model=classifier", {"inputs": ["a", "b"]}, "pairs are not taken"),
        ("/predict?model=classifier", {"inputs": [["a"], "b"]}, "inputs[1] must be a list"),
        ("/predict?model=classifier", {"inputs": 1}, "it is a number"),
        ("/predict?model=classifier", {"inputs": "a", "raw_scores": True}, "raw_scores"),
        ("/predict?model=classifier", {"inputs": "a", "parameters": {"top_k": 0}}, "top_k is 0"),
        ("/similarity?model=tiny", {"inputs": "a"}, "inputs"),
        ("/?model=tiny", {}, "'inputs' is missing"),
        ("/tokenize?model=tiny", {"inputs": [[1, 2]]}, "inputs must be texts"),
        ("/tokenize?model=tiny", {"inputs": []}, "at least one"),
        ("/tokenize?model=reranker", {"inputs": "a", "prompt_name": "query"}, "it has none"),
        ("/tokenize?model=transcriber", {"inputs": "a"}, "cannot tokenize: it does extract"),
        ("/decode?model=tiny", {"ids": "a"}, "ids must be lists of token ids"),
    ],
)
async def test_errors_have_their_shape(gateway: Served, path: str, body: Any, says: str) -> None:
    response = await (gateway.http.get(path) if body is None else gateway.post(path, body))
    error = response.json()
    assert (response.status_code, error["error_type"]) == (400, "Validation")
    assert says in error["error"]


async def test_types_of_errors() -> None:
    kinds = [tei(e("x").info)["error_type"] for e in (Overloaded, Unavailable, DeadlineExceeded)]
    assert kinds == ["Overloaded", "Unhealthy", "Backend"]

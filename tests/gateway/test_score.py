from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.gateway.score import QUERY_MOST_BYTES
from shoal.values import ScoreParams
from tests.gateway.conftest import Served
from tests.gateway.scripted import ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")

MSGPACK = "application/msgpack"
PATH = "/v1/score/reranker"


async def test_documents_get_scores_in_their_order(gateway: Served, worker: ScriptedWorker) -> None:
    response = await gateway.post(PATH, {"query": "q", "items": ["a", {"text": "long"}, [1, 2]]})
    assert response.status_code == 200
    assert response.json() == {
        "model": "reranker",
        "items": [
            {"score": 0.03, "tokens": 3, "truncated": False},
            {"score": 0.15, "tokens": 3, "truncated": True},
            {"score": 0.05, "tokens": 3, "truncated": False},
        ],
        "usage": {"tokens": 9},
    }
    (unit,) = worker.units
    assert (unit.task, unit.params) == ("score", ScoreParams(b'"q"'))


async def test_messagepack_in_and_out(gateway: Served, worker: ScriptedWorker) -> None:
    asked = {"query": {"text": "q"}, "items": ["ab"], "params": {"raw": True, "truncate": False}}
    response = await gateway.http.post(
        PATH, content=msgspec.msgpack.encode(asked), headers={"content-type": MSGPACK}
    )
    body = msgspec.msgpack.decode(response.content)
    assert body["items"][0]["score"] == pytest.approx(0.03)
    query = msgspec.msgpack.encode({"text": "q"})
    assert worker.units[0].params == ScoreParams(query, raw=True, truncate=False)


async def test_a_bad_document_fails_alone_and_all_bad_ones_fail_the_request(
    gateway: Served,
) -> None:
    one = await gateway.post(PATH, {"query": "q", "items": ["a", "bad"]})
    assert one.status_code == 200
    assert one.json()["items"][1]["error"]["param"] == "items[1]"
    both = await gateway.post(PATH, {"query": "q", "items": ["bad", "bad"]})
    assert (both.status_code, both.json()["error"]["param"]) == (400, "items[0]")


async def test_a_large_request_is_cut_with_its_query(
    gateway: Served, worker: ScriptedWorker
) -> None:
    texts = ["x" * (n % 50) for n in range(300)]
    body = (await gateway.post(PATH, {"query": "q", "items": texts})).json()
    assert [item["score"] for item in body["items"]] == [(len(t) + 2) / 100 for t in texts]
    assert len(worker.units) == 5
    assert {unit.params for unit in worker.units} == {ScoreParams(b'"q"')}


async def test_an_instruction_travels_to_a_model_that_takes_one(
    gateway: Served, worker: ScriptedWorker
) -> None:
    asked = {"query": "q", "items": ["a"], "params": {"instruction": "find the opposite"}}
    assert (await gateway.post("/v1/score/instructed", asked)).status_code == 200
    assert worker.units[0].params == ScoreParams(b'"q"', instruction="find the opposite")


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({"items": ["a"]}, "query", "missing"),
        (
            {"query": "q", "items": ["a"], "params": {"instruction": "find"}},
            "params.instruction",
            "takes no instruction",
        ),
        ({"query": 3, "items": ["a"]}, "query", "it is a number"),
        ({"query": None, "items": ["a"]}, "query", "must be"),
        ({"query": "q", "items": []}, "items", "at least one"),
        ({"query": "q", "documents": ["a"]}, "documents", "unknown key"),
        ({"query": "q", "items": ["a"], "params": {"top_n": 1}}, "params.top_n", "unknown key"),
        ({"query": "q", "items": ["a"], "params": {"raw": 1}}, "params.raw", "bool"),
        (
            {"query": "q", "items": ["a"], "params": {"document_tokens": 0}},
            "params.document_tokens",
            "at least 1",
        ),
        (
            {"query": "q", "items": ["a"], "params": {"document_tokens": 9, "truncate": False}},
            "params.document_tokens",
            "truncate is false",
        ),
    ],
)
async def test_what_is_wrong_is_named(gateway: Served, body: Any, param: str, says: str) -> None:
    response = await gateway.post(PATH, body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert says in error["message"]


async def test_a_query_that_no_unit_can_carry_is_refused(gateway: Served) -> None:
    response = await gateway.post(PATH, {"query": "q" * QUERY_MOST_BYTES, "items": ["a"]})
    assert response.status_code == 413
    assert "65536" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (
            "/v1/score/tiny",
            {},
            "cannot score: it does encode; ask one that does: instructed, late, logits, reranker",
        ),
        ("/v1/encode/reranker", {}, "cannot encode: it does score; ask one that does: every-"),
        ("/v1/embeddings", {"model": "ner", "input": "a"}, "cannot encode: it does extract"),
    ],
)
async def test_a_model_that_does_other_tasks_says_which(
    gateway: Served, path: str, body: Any, says: str
) -> None:
    response = await gateway.post(path, body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "model")
    assert says in error["message"]

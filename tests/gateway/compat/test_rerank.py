from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import cohere
import pytest
import pytest_asyncio

from shoal.values import ScoreParams
from tests.gateway.conftest import Served
from tests.gateway.scripted import ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCUMENTS = ["a", "abc", "ab", "xyz"]
ORDER = [1, 3, 2, 0]  # longer scores more; of equal ones the earlier comes first


@pytest_asyncio.fixture(loop_scope="session")
async def v1(gateway: Served) -> AsyncIterator[cohere.AsyncClient]:
    async with cohere.AsyncClient("any", base_url=gateway.url) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def v2(gateway: Served) -> AsyncIterator[cohere.AsyncClientV2]:
    async with cohere.AsyncClientV2("any", base_url=gateway.url) as client:
        yield client


async def test_the_official_client_of_v2(v2: cohere.AsyncClientV2, worker: ScriptedWorker) -> None:
    answer = await v2.rerank(model="reranker", query="q", documents=DOCUMENTS)
    assert [result.index for result in answer.results] == ORDER
    assert answer.results[0].relevance_score == pytest.approx(0.05)
    assert answer.id
    assert answer.meta is not None
    assert answer.meta.tokens is not None
    assert answer.meta.tokens.input_tokens == 12
    assert answer.meta.api_version is not None
    assert answer.meta.api_version.version == "2"
    assert worker.units[0].params == ScoreParams(b'"q"')
    best = await v2.rerank(model="reranker", query="q", documents=DOCUMENTS, top_n=2)
    assert [result.index for result in best.results] == ORDER[:2]


async def test_documents_are_cut_as_asked_where_the_model_can(
    v2: cohere.AsyncClientV2, worker: ScriptedWorker
) -> None:
    for most in (100, 4096):
        await v2.rerank(model="reranker", query="q", documents=["a"], max_tokens_per_doc=most)
    assert [unit.params for unit in worker.units] == [
        ScoreParams(b'"q"', document_tokens=100),
        ScoreParams(b'"q"'),
    ]
    with pytest.raises(cohere.BadRequestError) as caught:
        await v2.rerank(model="late", query="q", documents=["a"], max_tokens_per_doc=100)
    assert "'late' cuts documents at 256 tokens alone" in caught.value.body["message"]


async def test_the_official_client_of_v1(v1: cohere.AsyncClient, worker: ScriptedWorker) -> None:
    answer = await v1.rerank(
        query="q", model="reranker", documents=DOCUMENTS, top_n=9, return_documents=True
    )
    assert [result.index for result in answer.results] == ORDER
    first = answer.results[0].document
    assert first is not None
    assert first.text == "abc"
    maps = [{"text": "abc", "title": "t"}, {"title": "abcdef", "text": "x"}]
    answer = await v1.rerank(
        query="q", model="reranker", documents=maps, rank_fields=["title"], return_documents=True
    )
    assert [result.index for result in answer.results] == [1, 0]
    kept = answer.results[0].document
    assert kept is not None
    assert kept.model_dump() == {"text": "x", "title": "abcdef"}
    assert worker.units[-1].items == [b'"t"', b'"abcdef"']


async def test_the_official_client_raises_its_own_errors(v2: cohere.AsyncClientV2) -> None:
    with pytest.raises(cohere.BadRequestError) as caught:
        await v2.rerank(model="reranker", query="q", documents=["a", "bad"])
    assert caught.value.body["message"] == "documents[1]: 300 tokens; the model takes 256"
    with pytest.raises(cohere.NotFoundError) as unknown:
        await v2.rerank(model="rerankre", query="q", documents=["a"])
    assert "did you mean 'reranker'" in unknown.value.body["message"]


async def test_logits_become_scores_from_0_to_1(gateway: Served) -> None:
    body = {"model": "logits", "query": "q", "documents": ["a" * 98], "texts": ["a" * 98]}
    (cohere,) = (await gateway.post("/v2/rerank", body)).json()["results"]
    assert cohere["relevance_score"] == pytest.approx(1 / (1 + math.exp(-1)))
    (tei,) = (await gateway.post("/tei/logits/rerank", body)).json()
    assert tei["score"] == cohere["relevance_score"]
    (raw,) = (await gateway.post("/tei/logits/rerank", {**body, "raw_scores": True})).json()
    assert raw["score"] == pytest.approx(1.0)
    (native,) = (
        await gateway.post("/v1/score/logits", {"query": "q", "items": ["a" * 98]})
    ).json()["items"]
    assert native["score"] == pytest.approx(1.0)


async def test_fields_are_read_as_a_map_has_them(gateway: Served, worker: ScriptedWorker) -> None:
    """A value that is missing is no word ``None``."""
    document = {"text": None, "title": "a", "tags": ["x", None], "new": True}
    fields = ["text", "title", "tags", "new"]
    asked = {"model": "reranker", "query": "q", "documents": [document], "rank_fields": fields}
    assert (await gateway.post("/v1/rerank", asked)).status_code == 200
    assert [bytes(item) for item in worker.units[-1].items] == [b'"a\\n[\\"x\\",null]\\ntrue"']


async def test_jina_s_shape(gateway: Served) -> None:
    body = {"model": "reranker", "query": "q", "documents": ["a", "abc"], "return_documents": True}
    answer = (await gateway.post("/v1/rerank", body)).json()
    assert answer["model"] == "reranker"
    assert answer["usage"] == {"total_tokens": 6, "prompt_tokens": 6}
    assert answer["results"][0]["document"] == {"text": "abc"}
    plain = (await gateway.post("/v1/rerank", {**body, "return_documents": False})).json()
    assert set(plain["results"][0]) == {"index", "relevance_score"}


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"documents": []}, "documents", "at least one"),
        ({"documents": ["a", 3]}, "documents[1]", "it is a number"),
        ({"documents": [["a"]]}, "documents[0]", "a string or a map"),
        ({"documents": [{"title": "a"}]}, "documents[0]", "has no 'text'"),
        ({"documents": [{"text": None}]}, "documents[0]", "has no 'text'"),
        ({"documents": ["a"], "top_n": 0}, "top_n", "at least 1"),
        ({"documents": ["a"], "query": 1}, "query", "it is a number"),
        ({"documents": ["a"], "model": "tiny"}, "model", "cannot score"),
        ({}, "documents", "missing"),
    ],
)
async def test_what_is_wrong_is_named(gateway: Served, fields: Any, param: str, says: str) -> None:
    response = await gateway.post("/v2/rerank", {"model": "reranker", "query": "q", **fields})
    error = response.json()
    assert (response.status_code, error["param"]) == (400, param)
    assert says in error["message"]
    assert error["detail"] == error["message"]

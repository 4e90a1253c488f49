from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import openai
import pytest
import pytest_asyncio

from shoal.values import EncodeParams
from tests.gateway.conftest import ALIAS, MODEL, Served
from tests.gateway.scripted import DIM, ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def client(gateway: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="any", max_retries=0
    ) as made:
        yield made


async def test_the_official_client_with_its_defaults(client: openai.AsyncOpenAI) -> None:
    one = await client.embeddings.create(model=ALIAS, input="abc")
    assert one.data[0].embedding == [5.0] * DIM
    assert one.model == ALIAS
    assert (one.usage.prompt_tokens, one.usage.total_tokens) == (3, 3)
    many = await client.embeddings.create(model=MODEL, input=["a", "bcd"])
    assert [row.index for row in many.data] == [0, 1]
    assert [row.embedding[0] for row in many.data] == [3.0, 5.0]


async def test_the_official_client_with_options(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    ids = await client.embeddings.create(model=ALIAS, input=[100, 201], user="someone")
    assert len(ids.data) == 1
    assert worker.units[0].items == [b"[100,201]"]
    lists = await client.embeddings.create(model=ALIAS, input=[[100], [201, 7]], dimensions=4)
    assert [len(row.embedding) for row in lists.data] == [4, 4]
    floats = await client.embeddings.create(model=ALIAS, input="a", encoding_format="float")
    assert floats.data[0].embedding == [3.0] * DIM


async def test_the_official_client_lists_models(client: openai.AsyncOpenAI) -> None:
    assert MODEL in [model.id async for model in client.models.list()]
    assert (await client.models.retrieve(ALIAS)).id == ALIAS
    with pytest.raises(openai.NotFoundError, match="did you mean 'tiny'"):
        await client.models.retrieve("tinny")


async def test_the_official_client_raises_its_own_errors(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"input\[1\]: 300 tokens") as caught:
        await client.embeddings.create(model=ALIAS, input=["a", "bad"])
    assert caught.value.param == "input[1]"
    assert caught.value.code == "too_many_tokens"
    assert caught.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError):
        await client.embeddings.create(model="nothing-like-it", input="a")


async def test_base64_is_little_endian_float32(gateway: Served) -> None:
    body = (await gateway.embeddings("abc", encoding_format="base64")).json()
    raw = base64.b64decode(body["data"][0]["embedding"])
    assert len(raw) == 4 * DIM
    assert np.frombuffer(raw, "<f4").tolist() == [5.0] * DIM


async def test_truncation_is_reported_where_it_happened(
    gateway: Served, worker: ScriptedWorker
) -> None:
    body = (await gateway.embeddings(["a", "long"])).json()
    assert ["truncated" in row for row in body["data"]] == [False, True]
    assert worker.units[0].params == EncodeParams()
    await gateway.embeddings("a", truncate=False)
    assert worker.units[1].params == EncodeParams(truncate=False)


async def test_fields_of_other_servers_are_ignored(gateway: Served) -> None:
    assert (await gateway.embeddings("a", store=True, input_type="query")).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": []}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": None}, "input"),
        ({"input": 3}, "input"),
        ({"input": ["a", 3]}, "input[1]"),
        ({"input": [1, "a"]}, "input[1]"),
        ({"input": [[1], "a"]}, "input[1]"),
        ({"input": [None]}, "input[0]"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 9}, "dimensions"),
        ({"input": "a", "dimensions": "4"}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "user": 3}, "user"),
        ({"input": "a", "model": 3}, "model"),
        ({}, "input"),
    ],
)
async def test_what_is_wrong_is_named(gateway: Served, fields: Any, param: str) -> None:
    response = await gateway.http.post("/v1/embeddings", json={"model": ALIAS, **fields})
    error = response.json()["error"]
    assert response.status_code == 400, response.text
    assert error["param"] == param
    assert set(error) == {"message", "type", "param", "code"}


async def test_what_a_field_of_few_values_may_be_is_told(gateway: Served) -> None:
    body = {"model": ALIAS, "input": "a", "encoding_format": "hex"}
    response = await gateway.http.post("/v1/embeddings", json=body)
    assert response.json()["error"]["message"].endswith("'hex'; use one of float, base64")


async def test_it_takes_json_only(gateway: Served) -> None:
    response = await gateway.http.post(
        "/v1/embeddings", content=b"\x80", headers={"content-type": "application/msgpack"}
    )
    assert response.status_code == 415


async def test_a_model_without_dense_vectors_says_what_it_has(gateway: Served) -> None:
    response = await gateway.post("/v1/embeddings", {"model": "terms", "input": "a"})
    assert response.status_code == 400
    assert "no output 'dense': it has 'sparse'" in response.json()["error"]["message"]

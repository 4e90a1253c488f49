from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import openai
import pytest
import pytest_asyncio
from openai.types import ModerationTextInputParam

from shoal.values import ExtractParams
from shoal.wire.queue import Reply
from tests.gateway.conftest import Served
from tests.gateway.scripted import ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def client(gateway: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="any", max_retries=0
    ) as made:
        yield made


async def test_the_official_client(client: openai.AsyncOpenAI, worker: ScriptedWorker) -> None:
    answer = await client.moderations.create(model="classifier", input=["a", "b"])
    assert (answer.model, len(answer.results)) == ("classifier", 2)
    first = answer.results[0]
    assert first.flagged
    assert first.categories.harassment is True
    assert first.category_scores.harassment == 0.75
    assert first.categories.model_dump()["calm"] is False
    assert first.category_applied_input_types.harassment == ["text"]
    assert worker.units[0].params == ExtractParams(None, 0.0)


async def test_parts_are_one_text_and_the_model_may_be_left_out(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    parts: list[ModerationTextInputParam] = [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    answer = await client.moderations.create(input=parts)
    assert answer.model == "classifier"
    assert len(answer.results) == 1
    assert worker.units[0].items == [b'"a\\nb"']


async def test_a_harmless_class_flags_nothing(gateway: Served, worker: ScriptedWorker) -> None:
    labels = [{"label": "safe", "score": 0.9}, {"label": "toxic", "score": 0.1}]
    told = msgspec.msgpack.encode({"labels": labels})
    worker.answer = lambda unit, ack: Reply(unit.id, "w", ack, [1], objects=[told])
    (result,) = (await gateway.post("/v1/moderations", {"input": "a"})).json()["results"]
    assert result["flagged"] is False
    assert result["categories"] == {"safe": True, "toxic": False}


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"input": []}, "input", "at least one"),
        ({"input": 3}, "input", "it is a number"),
        ({"input": ["a", "bad"]}, "input[1]", "300 tokens"),
        ({"input": [{"type": "image_url"}]}, "input[0]", "texts are taken"),
        ({"input": [{"text": "a"}]}, "input[0]", "type"),
        ({"input": "a", "model": "ner"}, "model", "cannot extract (sequence-labels): it does"),
        ({}, "input", "missing"),
    ],
)
async def test_what_is_wrong_is_named(gateway: Served, fields: Any, param: str, says: str) -> None:
    response = await gateway.post("/v1/moderations", fields)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert says in error["message"]

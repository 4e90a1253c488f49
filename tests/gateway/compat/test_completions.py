from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio

from shoal.values import GenerateParams
from shoal.wire.objects import TokenLogprob
from tests.gateway.compat.test_chat import says
from tests.gateway.conftest import Served
from tests.gateway.scripted import ScriptedWorker
from tests.gateway.writing import token

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def client(gateway: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="any", max_retries=0
    ) as made:
        yield made


async def test_the_official_client_with_its_defaults(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, " upon a time", finish="length")
    answer = await client.completions.create(model="storyteller", prompt="Once")
    assert (answer.object, answer.model) == ("text_completion", "storyteller")
    (choice,) = answer.choices
    assert (choice.index, choice.text, choice.finish_reason) == (0, " upon a time", "length")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 2)
    (unit,) = worker.units
    assert unit.items == [b'"Once"']
    assert isinstance(unit.params, GenerateParams)
    assert unit.params == GenerateParams(max_tokens=16, seed=unit.params.seed)


async def test_several_prompts_and_several_texts_of_each(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, "a0", "a1", "b0", "b1")
    answer = await client.completions.create(
        model="storyteller", prompt=["a", "b"], n=2, seed=5, logit_bias={"3": 1}
    )
    assert [(c.index, c.text) for c in answer.choices] == list(enumerate(["a0", "a1", "b0", "b1"]))
    asked = {u.id[-1]: (u.items[0], u.params.seed) for u in worker.units}  # type: ignore[union-attr]
    assert asked == {"0": (b'"a"', 5), "1": (b'"a"', 6), "2": (b'"b"', 5), "3": (b'"b"', 6)}
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (6, 8)


async def test_token_ids_travel_as_they_are(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    await client.completions.create(model="storyteller", prompt=[[1, 2], [3]])
    assert sorted(unit.items[0] for unit in worker.units) == [b"[1,2]", b"[3]"]


async def test_a_stream_of_the_official_client(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, " upon", " a time")
    stream = await client.completions.create(
        model="storyteller",
        prompt=["Once", "Twice"],
        stream=True,
        stream_options={"include_usage": True},
    )
    texts, ends, told = {0: "", 1: ""}, {}, None
    async for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            ends[choice.index] = choice.finish_reason
        told = chunk.usage or told
    assert texts == {0: " upon", 1: " a time"}
    assert ends == {0: "stop", 1: "stop"}
    assert told is not None
    assert (told.prompt_tokens, told.total_tokens) == (6, 10)


async def test_logprobs_and_where_tokens_are(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    tokens = [token("Hi", -0.25, "Hi", "Ho"), TokenLogprob("", b"\xf0", -1.0), token(" you")]
    says(worker, "Hi you", logprobs=tokens)
    options: Any = {"model": "storyteller", "prompt": "Once", "logprobs": 2}
    answer = await client.completions.create(**options)
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.tokens == ["Hi", "bytes:\\xf0", " you"]
    assert told.token_logprobs == [-0.25, -1.0, -0.5]
    assert told.text_offset == [0, 2, 2]
    assert told.top_logprobs is not None
    assert set(told.top_logprobs[0]) == {"Hi", "Ho"}
    offsets: list[int] = []
    async for chunk in await client.completions.create(**options, stream=True):
        for choice in chunk.choices:
            offsets += (choice.logprobs.text_offset or []) if choice.logprobs else []
    assert offsets == [0, 2, 2]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"suffix": "the end"}, "suffix"),
        ({"echo": True}, "echo"),
        ({"best_of": 2}, "best_of"),
        ({"prompt": 7}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", 7]}, "prompt[1]"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"logprobs": 21}, "logprobs"),
        ({"messages": []}, "messages"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(
    gateway: Served, worker: ScriptedWorker, fields: Any, param: str
) -> None:
    body = {"model": "storyteller", "prompt": "Once", **fields}
    response = await gateway.post("/v1/completions", body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert worker.units == []

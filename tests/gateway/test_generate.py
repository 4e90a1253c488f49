from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from shoal.values import GenerateParams
from shoal.wire.objects import TokenLogprob, ToolCall
from shoal.wire.queue import Reply, Unit
from tests.gateway.conftest import Served
from tests.gateway.scripted import ScriptedWorker
from tests.gateway.writing import Writing, token

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATH = "/v1/generate/storyteller"
MSGPACK = "application/msgpack"
TOKENS = 'shoal_gateway_tokens_total{model="storyteller"}'


def told(worker: ScriptedWorker, text: str, **more: Any) -> None:
    """Every unit is answered with this."""
    writing = Writing(worker)

    def answer(unit: Unit, ack: str) -> None:
        writing(unit, ack)
        writing.whole(text, number=len(writing.units) - 1, **more)

    worker.answer = answer


async def test_texts_in_json(gateway: Served, worker: ScriptedWorker) -> None:
    told(worker, " upon a time", finish="length", cached_tokens=1)
    before = await gateway.metric(TOKENS)
    response = await gateway.post(PATH, {"items": ["Once", {"text": "Twice"}, [1, 2]]})
    assert response.status_code == 200
    assert await gateway.metric(TOKENS) == before + 9 + 6
    item = {
        "text": " upon a time",
        "finish": "length",
        "prompt_tokens": 3,
        "new_tokens": 2,
        "cached_tokens": 1,
        "tokens": 3,
        "truncated": False,
    }
    assert response.json() == {
        "model": "storyteller",
        "items": [item] * 3,
        "usage": {"tokens": 9, "new_tokens": 6, "cached_tokens": 3},
    }
    assert len(worker.units) == 3, "each text is a unit of its own"
    assert {len(unit.items) for unit in worker.units} == {1}
    timing = response.headers["server-timing"]
    assert "compute;dur=4.00" in timing


async def test_conversations_in_messagepack(gateway: Served, worker: ScriptedWorker) -> None:
    half = TokenLogprob("", b"\xf0\x9f", -1.0)
    told(worker, "Hi", logprobs=[token("Hi", -0.5, "Ho"), half], reasoning="Greet.")
    conversation = {"messages": [{"role": "user", "content": "Hello"}]}
    asked = msgspec.msgpack.encode({"items": [conversation], "params": {"logprobs": 1}})
    headers = {"content-type": MSGPACK}
    response = await gateway.http.post(PATH, content=asked, headers=headers)
    (item,) = msgspec.msgpack.decode(response.content)["items"]
    assert (item["text"], item["reasoning"]) == ("Hi", "Greet.")
    assert item["logprobs"][0]["bytes"] == b"Hi"
    assert item["logprobs"][0]["top"][0]["text"] == "Ho"
    (unit,) = worker.units
    assert msgspec.msgpack.decode(unit.items[0]) == conversation
    params = unit.params
    assert isinstance(params, GenerateParams)
    assert params == GenerateParams(chat=True, logprobs=1, seed=params.seed)


async def test_bytes_of_tokens_are_numbers_in_json(gateway: Served, worker: ScriptedWorker) -> None:
    told(worker, "Hi", logprobs=[token("Hi", -0.5, "Ho")])
    body = {"items": ["a"], "params": {"logprobs": 1}}
    (item,) = (await gateway.post(PATH, body)).json()["items"]
    assert item["logprobs"][0]["bytes"] == [72, 105]
    assert item["logprobs"][0]["top"][0]["bytes"] == [72, 111]
    streamed = await gateway.post(PATH, {**body, "stream": True})
    events = [json.loads(line[6:]) for line in streamed.text.splitlines() if line]
    assert events[1]["logprobs"] == item["logprobs"]


async def test_calls_of_tools(gateway: Served, worker: ScriptedWorker) -> None:
    told(worker, "", finish="tool_calls", tool_calls=[ToolCall("weather", "{}")])
    tool = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    body = {
        "items": [{"messages": [{"role": "user", "content": "Rain?"}]}],
        "params": {"tools": [tool], "tool_choice": "weather"},
    }
    (item,) = (await gateway.post("/v1/generate/agent", body)).json()["items"]
    assert item["tool_calls"] == [{"name": "weather", "arguments": "{}"}]
    params = worker.units[0].params
    assert isinstance(params, GenerateParams)
    assert (json.loads(params.tools), params.tool_choice) == ([tool], "weather")


async def test_a_seed_is_that_of_every_item_and_drawn_ones_differ(
    gateway: Served, worker: ScriptedWorker
) -> None:
    await gateway.post(PATH, {"items": ["a", "a"], "params": {"seed": 7}})
    assert [unit.params.seed for unit in worker.units] == [7, 7]  # type: ignore[union-attr]
    await gateway.post(PATH, {"items": ["a", "a"]})
    first, second = [unit.params.seed for unit in worker.units[2:]]  # type: ignore[union-attr]
    assert first != second


async def test_every_option_travels(gateway: Served, worker: ScriptedWorker) -> None:
    given = {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.5,
        "top_k": 3,
        "min_p": 0.25,
        "presence_penalty": 1,
        "frequency_penalty": -1,
        "repetition_penalty": 1.25,
        "seed": 3,
        "stop": "END",
        "bias": {"9": -1, "3": 2.5},
        "grammar": "start: /a/",
    }
    response = await gateway.post(PATH, {"items": ["a"], "params": given})
    assert response.status_code == 200, response.text
    assert worker.units[0].params == GenerateParams(
        max_tokens=9,
        temperature=0.5,
        top_p=0.5,
        top_k=3,
        min_p=0.25,
        presence_penalty=1,
        frequency_penalty=-1,
        repetition_penalty=1.25,
        seed=3,
        stop=("END",),
        bias=((3, 2.5), (9, -1.0)),
        grammar=("lark", "start: /a/"),
    )


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"items": []}, "items"),
        ({"items": [7]}, "items[0]"),
        ({"items": ["a", {"messages": []}]}, "items[1]"),
        ({"items": [{"messages": []}, "a"]}, "items[1]"),
        ({"items": ["a"], "params": {"temprature": 1}}, "params.temprature"),
        ({"items": ["a"], "params": {"temperature": -1}}, "params.temperature"),
        ({"items": ["a"], "params": {"json": True, "regex": "a"}}, "params.regex"),
        ({"items": ["a"], "params": {"regex": ""}}, "params.regex"),
        ({"items": ["a"], "params": {"template": {"a": 1}}}, "params.template"),
        ({"items": ["a"], "params": {"tools": [{"function": {"name": "f"}}]}}, "params.tools"),
        ({"items": ["a"], "params": {"bias": {"-1": 1}}}, "params.bias"),
        ({"items": ["a"], "params": {"bias": {str(10**30): 1}}}, "params.bias"),
        ({"items": ["a"], "params": {"stop": ["a" * 257]}}, "params.stop"),
        ({"items": ["a"], "streams": True}, "streams"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(
    gateway: Served, worker: ScriptedWorker, body: Any, param: str
) -> None:
    response = await gateway.post(PATH, body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert worker.units == []


@pytest.mark.parametrize("name", ["schema", "grammar", "template", "tools"])
async def test_what_travels_with_each_unit_is_bounded(
    gateway: Served, worker: ScriptedWorker, name: str
) -> None:
    large = "x" * 70_000
    tool = {"function": {"name": "f", "description": large}}
    value = {"schema": {"a": large}, "template": {"a": large}, "tools": [tool]}.get(name, large)
    body = {"items": [{"messages": [{"role": "user", "content": "a"}]}], "params": {name: value}}
    response = await gateway.post("/v1/generate/agent", body)
    assert (response.status_code, response.json()["error"]["param"]) == (413, f"params.{name}")


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({"template": {"a": msgspec.msgpack.Ext(5, b"x")}}, "params.template"),
        ({"schema": {"enum": {(1, 2): 3}}}, "params.schema"),
        (
            {"tools": [{"function": {"name": "f", "x": msgspec.msgpack.Ext(5, b"x")}}]},
            "params.tools",
        ),
    ],
)
async def test_what_json_has_not_is_refused(
    gateway: Served, params: dict[str, Any], where: str
) -> None:
    items = [{"messages": [{"role": "user", "content": "Hello"}]}]
    body = msgspec.msgpack.encode({"items": items, "params": params})
    headers = {"content-type": MSGPACK}
    response = await gateway.http.post("/v1/generate/agent", content=body, headers=headers)
    error = msgspec.msgpack.decode(response.content)["error"]
    assert (response.status_code, error["param"]) == (400, where)
    assert "what JSON has not" in error["message"]


async def test_too_many_tools_are_refused_before_their_names_are_compared(gateway: Served) -> None:
    tools = [{"function": {"name": f"{n:0180b}"}} for n in range(1000)]
    body = {
        "items": [{"messages": [{"role": "user", "content": "Hello"}]}],
        "params": {"tools": tools, "tool_choice": "01" * 90},
    }
    response = await gateway.post("/v1/generate/agent", body)
    assert (response.status_code, response.json()["error"]["param"]) == (413, "params.tools")


async def test_an_item_fails_by_itself(gateway: Served, worker: ScriptedWorker) -> None:
    body = (await gateway.post(PATH, {"items": ["a", "bad"]})).json()
    assert body["items"][0]["text"] == '"a"'
    assert body["items"][1]["error"]["param"] == "items[1]"
    assert body["usage"]["new_tokens"] == 4


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_no_generation_is_an_error_not_a_crash(
    gateway: Served, worker: ScriptedWorker, stream: bool
) -> None:
    worker.answer = lambda unit, ack: Reply(unit.id, "w", ack, [1], objects=[b"\x01"])
    response = await gateway.post(PATH, {"items": ["a"], "stream": stream})
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "protocol"


async def test_models_tell_that_they_generate(gateway: Served) -> None:
    model = (await gateway.http.get("/v1/models/storyteller")).json()
    assert model["tasks"] == ["generate"]
    response = await gateway.post("/v1/generate/tiny", {"items": ["a"]})
    assert response.status_code == 400
    assert "ask one that does: agent, seer, storyteller" in response.json()["error"]["message"]

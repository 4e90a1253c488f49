from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio

from shoal.errors import ErrorInfo
from shoal.tasks.generate.answer import Called, Said, Thought
from shoal.values import GenerateParams
from shoal.wire.objects import ToolCall
from shoal.wire.queue import Unit
from tests.gateway.compat.test_chat import params_of, says
from tests.gateway.conftest import Served
from tests.gateway.scripted import ScriptedWorker
from tests.gateway.writing import Writing, token

pytestmark = pytest.mark.asyncio(loop_scope="session")

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "Of a town.",
    "parameters": {"type": "object"},
    "strict": True,
}


@pytest_asyncio.fixture(loop_scope="session")
async def client(gateway: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="any", max_retries=0
    ) as made:
        yield made


def asked(worker: ScriptedWorker) -> Any:
    """The messages of the latest unit."""
    return json.loads(worker.units[-1].items[0])["messages"]


async def test_the_official_client_with_its_defaults(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, "Hi there", cached_tokens=1)
    response = await client.responses.create(model="storyteller", input="Hello")
    assert response.output_text == "Hi there"
    assert (response.object, response.status, response.model) == (
        "response",
        "completed",
        "storyteller",
    )
    assert response.id.startswith("resp_")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 2)
    assert response.usage.input_tokens_details.cached_tokens == 1
    assert response.error is None
    assert response.incomplete_details is None
    assert asked(worker) == [{"role": "user", "content": "Hello"}]
    params = params_of(worker)
    assert params == GenerateParams(chat=True, seed=params.seed)


async def test_options_travel(client: openai.AsyncOpenAI, worker: ScriptedWorker) -> None:
    says(worker, "{}", finish="length", logprobs=[token("{}", -0.5, "{}")])
    response = await client.responses.create(
        model="storyteller",
        input="Hello",
        instructions="Be brief.",
        max_output_tokens=7,
        temperature=0.5,
        top_p=0.25,
        top_logprobs=1,
        include=["message.output_text.logprobs"],
        reasoning={"effort": "low"},
        metadata={"a": "b"},
        store=False,
        truncation="disabled",
        user="someone",
        text={
            "format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}},
        },
        extra_body={"seed": 5},
    )
    assert params_of(worker) == GenerateParams(
        chat=True,
        max_tokens=7,
        temperature=0.5,
        top_p=0.25,
        seed=5,
        logprobs=1,
        grammar=("json_schema", '{"type":"object"}'),
        template='{"reasoning_effort":"low"}',
    )
    assert asked(worker)[0] == {"role": "system", "content": "Be brief."}
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert (response.instructions, response.metadata) == ("Be brief.", {"a": "b"})
    (message,) = response.output
    assert message.type == "message"
    (part,) = message.content
    assert part.type == "output_text"
    assert part.logprobs is not None
    assert part.logprobs[0].top_logprobs[0].bytes == [123, 125]


async def test_items_become_a_conversation(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    items: Any = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Rain?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "1", "name": "weather", "arguments": '{"t":"Bonn"}'},
        {"type": "function_call", "call_id": "2", "name": "weather", "arguments": '{"t":"Ulm"}'},
        {"type": "function_call_output", "call_id": "1", "output": "Rain."},
        {"type": "function_call_output", "call_id": "2", "output": "Sun."},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
        },
        {"role": "user", "content": "Sure?"},
    ]
    await client.responses.create(model="agent", input=items, tools=[WEATHER])
    calls = [
        {
            "id": "1",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"t":"Bonn"}'},
        },
        {
            "id": "2",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"t":"Ulm"}'},
        },
    ]
    assert asked(worker) == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Rain?"}]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "Rain."},
        {"role": "tool", "tool_call_id": "2", "content": "Sun."},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
        {"role": "user", "content": "Sure?"},
    ]
    function = {name: WEATHER[name] for name in ("name", "description", "parameters")}
    assert json.loads(params_of(worker).tools) == [{"type": "function", "function": function}]


async def test_images_go_along(client: openai.AsyncOpenAI, worker: ScriptedWorker) -> None:
    url = "data:image/png;base64,AAAA"
    items: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]
    await client.responses.create(model="seer", input=items)
    (message,) = asked(worker)
    assert message["content"] == [{"type": "image_url", "image_url": {"url": url}}]


async def test_calls_and_thoughts_are_items_of_their_own(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    calls = [ToolCall("weather", '{"t":"Bonn"}'), ToolCall("weather", "{}")]
    says(worker, "", finish="tool_calls", tool_calls=calls, reasoning="Two towns.")
    options: Any = {"model": "agent", "input": "Rain?", "tools": [WEATHER]}
    response = await client.responses.create(
        **options, tool_choice={"type": "function", "name": "weather"}
    )
    assert params_of(worker).tool_choice == "weather"
    thought, first, second = response.output
    assert thought.type == "reasoning"
    assert thought.content is not None
    assert thought.content[0].text == "Two towns."
    assert first.type == second.type == "function_call"
    assert (first.name, first.arguments) == ("weather", '{"t":"Bonn"}')
    assert first.call_id != second.call_id
    one = await client.responses.create(**options, parallel_tool_calls=False)
    assert len([item for item in one.output if item.type == "function_call"]) == 1


# --- streams --------------------------------------------------------------------------------------


async def test_a_stream_of_the_official_client(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, "Hi there")
    stream = await client.responses.create(model="storyteller", input="Hello", stream=True)
    events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert list(dict.fromkeys(event.type for event in events)) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "Hi there"
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "Hi there"
    assert last.response.usage is not None
    assert last.response.usage.total_tokens == 5


async def test_calls_in_a_stream_add_up(client: openai.AsyncOpenAI, worker: ScriptedWorker) -> None:
    calls = [ToolCall("weather", '{"t":"Bonn"}'), ToolCall("weather", "{}")]
    says(worker, "Wait.", finish="tool_calls", tool_calls=calls, reasoning="Hm.")
    async with client.responses.stream(model="agent", input="Rain?", tools=[WEATHER]) as stream:
        kinds = [event.type async for event in stream]
        response = await stream.get_final_response()
    assert kinds.count("response.function_call_arguments.done") == 2
    assert [item.type for item in response.output] == [
        "message",
        "reasoning",
        "function_call",
        "function_call",
    ]
    assert response.output_text == "Wait."


async def test_thoughts_and_calls_come_as_they_are_written(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)
    begun = asyncio.create_task(
        client.responses.create(model="agent", input="Rain?", tools=[WEATHER], stream=True)
    )
    await writing.come()
    writing.tell(
        *(Thought("Two "), Thought("towns."), Said("Wait.")),
        *(Called(0, "weather", '{"t": '), Called(0, None, '"Bonn"}')),
        Called(1, "weather", '{"t": "Ul'),
    )
    stream = await begun
    kinds: list[str] = []
    async for event in stream:
        kinds.append(event.type)
        if event.type == "response.function_call_arguments.delta" and "Ul" in event.delta:
            break
    assert list(dict.fromkeys(kinds[2:])) == [
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
    ]
    assert kinds.count("response.output_item.added") == 4
    assert kinds.count("response.output_item.done") == 3
    calls = [ToolCall("weather", '{"t": "Bonn"}'), ToolCall("weather", '{"t": "Ul')]
    more: Any = {"finish": "length", "tool_calls": calls, "reasoning": "Two towns."}
    writing.whole("Wait.", **more)
    *rest, last = [event async for event in stream]
    assert [event.type for event in rest] == [
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert last.type == "response.incomplete"
    assert [(item.type, item.status) for item in last.response.output] == [  # type: ignore[union-attr]
        ("reasoning", "completed"),
        ("message", "completed"),
        ("function_call", "completed"),
        ("function_call", "incomplete"),
    ]


async def test_calls_alone_need_no_message(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, "", finish="tool_calls", tool_calls=[ToolCall("weather", "{}")])
    async with client.responses.stream(model="agent", input="Rain?", tools=[WEATHER]) as stream:
        response = await stream.get_final_response()
    assert [item.type for item in response.output] == ["function_call"]


async def test_an_empty_text_is_a_message_all_the_same(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, "")
    async with client.responses.stream(model="storyteller", input="Hello") as stream:
        response = await stream.get_final_response()
    assert [item.type for item in response.output] == ["message"]


async def test_an_error_in_a_stream_is_told_and_ends_it(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)

    def answer(unit: Unit, ack: str) -> None:
        writing(unit, ack)
        writing.piece("Hi", 0)

    worker.answer = answer
    stream = await client.responses.create(model="storyteller", input="Hello", stream=True)
    async for event in stream:
        if event.type == "response.output_text.delta":
            break
    writing.fail(ErrorInfo("compute_failed", "out of memory", 500))
    error, failed = [event async for event in stream]
    assert error.type == "error"
    assert (error.code, error.message) == ("compute_failed", "out of memory")
    assert failed.type == "response.failed"
    assert failed.response.status == "failed"


# --- what goes wrong ------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str, str | None]] = [
    ({"store": True}, "nothing is kept", "store"),
    ({"previous_response_id": "resp_1"}, "send the whole conversation", "previous_response_id"),
    ({"conversation": "c"}, "nothing is kept", "conversation"),
    ({"background": True}, "nobody could fetch", "background"),
    ({"prompt": {"id": "p"}}, "as instructions", "prompt"),
    ({"truncation": "auto"}, "no item is left out", "truncation"),
    ({"include": ["file_search_call.results"]}, "there is no", "include"),
    ({"text": {"verbosity": "low"}}, "verbosity", "verbosity"),
    ({"text": {"format": {"type": "xml"}}}, "use text, json_object", "text.format.type"),
    ({"text": {"format": {"type": "json_schema"}}}, "no schema", "text.format.json_schema"),
    ({"tools": [{"type": "web_search"}]}, "nothing here has tools of its own", "tools[0]"),
    ({"temperature": 3}, "it is from 0 to 2", "temperature"),
    ({"max_output_tokens": 0}, "it is from 1", "max_output_tokens"),
    ({"top_logprobs": 21}, "it is from 0 to 20", "top_logprobs"),
    ({"stop": "a"}, "unknown key", "stop"),
    ({"input": 7}, "it is a number", "input"),
    ({"input": []}, "input is empty", "input"),
    ({"input": ["a"]}, "Expected `object`", "input"),
    ({"input": [{"type": "item_reference", "id": "1"}]}, "item_reference", "input[0]"),
    ({"input": [{"type": "function_call", "name": "a"}]}, "no call_id", "input[0].call_id"),
    ({"input": [{"type": "function_call_output"}]}, "no output", "input[0].output"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "1"}]}]},
        "are taken",
        "input[0].content[0]",
    ),
    ({"input": [{"role": "bot", "content": "a"}]}, "Invalid enum value", "input[0].role"),
    (
        {
            "instructions": "Be kind",
            "input": [
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "call_id": "1", "name": "a", "arguments": "{}"},
                {"type": "function_call", "call_id": "2", "name": "b", "arguments": "{}"},
                {"role": "user"},
            ],
        },
        "input[3] has no content",
        "input[3].content",
    ),
]


@pytest.mark.parametrize(("fields", "message", "param"), BAD)
async def test_what_cannot_be_done_is_refused_by_name(
    gateway: Served, worker: ScriptedWorker, fields: Any, message: str, param: str | None
) -> None:
    response = await gateway.post(
        "/v1/responses", {"model": "storyteller", "input": "Hello", **fields}
    )
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert message in error["message"]
    if param is not None:
        assert error["param"] == param
    assert worker.units == []


@pytest.mark.parametrize(
    "content",
    [
        b'"\xff"',
        b'[{"role": "user", "content": "\xff"}]',
        b'[{"role": "user", "content": ["\xff"]}]',
    ],
)
async def test_a_text_that_is_none_is_the_callers_fault(gateway: Served, content: bytes) -> None:
    body = b'{"model": "storyteller", "input": %b}' % content
    headers = {"content-type": "application/json"}
    response = await gateway.http.post("/v1/responses", content=body, headers=headers)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == "input"

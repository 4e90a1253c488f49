from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import openai
import pytest
import pytest_asyncio

from shoal.errors import ErrorInfo
from shoal.tasks.generate.answer import Called, Delta, Thought
from shoal.tasks.reading import IMAGE_BYTES
from shoal.values import GenerateParams
from shoal.wire.objects import TokenLogprob, ToolCall
from shoal.wire.queue import Unit
from tests.gateway.conftest import Served
from tests.gateway.scripted import ScriptedWorker
from tests.gateway.writing import Writing, pieces_of, token

pytestmark = pytest.mark.asyncio(loop_scope="session")

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object"}},
}


@pytest_asyncio.fixture(loop_scope="session")
async def client(gateway: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="any", max_retries=0
    ) as made:
        yield made


def says(worker: ScriptedWorker, *texts: str, **more: Any) -> None:
    """Texts in the order in which they are asked, each in pieces of two characters and the rest."""
    writing = Writing(worker)

    def answer(unit: Unit, ack: str) -> None:
        number = len(writing.units)
        writing(unit, ack)
        text = texts[int(unit.id.rpartition(".")[2])]
        if unit.params.stream:  # type: ignore[union-attr]
            told = more.get("logprobs")
            writing.piece(text[:2], 0, number=number, told=told[:1] if told else None)
        writing.whole(text, number=number, **more)

    worker.answer = answer


def params_of(worker: ScriptedWorker) -> GenerateParams:
    params = worker.units[-1].params
    assert isinstance(params, GenerateParams)
    return params


async def test_the_official_client_with_its_defaults(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, "Hi there")
    answer = await client.chat.completions.create(model="storyteller", messages=HELLO)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "storyteller"
    (choice,) = answer.choices
    assert (choice.index, choice.finish_reason) == (0, "stop")
    assert (choice.message.role, choice.message.content) == ("assistant", "Hi there")
    assert (choice.message.refusal, choice.message.tool_calls) == (None, None)
    assert choice.logprobs is None
    assert answer.usage is not None
    assert answer.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    (unit,) = worker.units
    assert json.loads(unit.items[0]) == {"messages": HELLO}
    params = params_of(worker)
    assert params == GenerateParams(chat=True, seed=params.seed)


async def test_a_stream_of_the_official_client(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, "Hi there", cached_tokens=2)
    stream = await client.chat.completions.create(
        model="storyteller",
        messages=HELLO,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    first, *middle, last, usage = chunks
    assert (first.choices[0].delta.role, first.choices[0].delta.content) == ("assistant", "")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in middle) == "Hi there"
    assert middle
    assert {chunk.choices[0].finish_reason for chunk in [first, *middle]} == {None}
    assert (last.choices[0].finish_reason, last.choices[0].delta.content) == ("stop", None)
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * len(chunks[1:])
    assert usage.choices == []
    assert usage.usage is not None
    assert (usage.usage.prompt_tokens, usage.usage.completion_tokens) == (3, 2)
    assert usage.usage.prompt_tokens_details is not None
    assert usage.usage.prompt_tokens_details.cached_tokens == 2


async def test_usage_is_told_only_where_it_is_asked(
    gateway: Served, worker: ScriptedWorker
) -> None:
    body = {"model": "storyteller", "messages": HELLO, "stream": True}
    lines = (await gateway.post("/v1/chat/completions", body)).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    assert not any("usage" in line for line in lines)


async def test_several_texts_are_units_with_seeds_of_their_own(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, "one", "two", "three")
    answer = await client.chat.completions.create(
        model="storyteller", messages=HELLO, n=3, seed=2**63 - 1
    )
    assert [choice.message.content for choice in answer.choices] == ["one", "two", "three"]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 6)
    seeds = {unit.id[-1]: unit.params.seed for unit in worker.units}  # type: ignore[union-attr]
    assert seeds == {"0": 2**63 - 1, "1": -(2**63), "2": -(2**63) + 1}


async def test_streams_of_several_texts_are_told_apart(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    says(worker, "first", "second")
    stream = await client.chat.completions.create(
        model="storyteller", messages=HELLO, n=2, stream=True
    )
    texts, ends, roles = {0: "", 1: ""}, [], []
    async for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            roles += [choice.index] if choice.delta.role else []
            ends += [choice.index] if choice.finish_reason else []
    assert texts == {0: "first", 1: "second"}
    assert (sorted(ends), roles) == ([0, 1], [0, 1])


async def test_without_a_seed_one_is_drawn_for_each_text(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    for _ in range(2):
        await client.chat.completions.create(model="storyteller", messages=HELLO, n=2)
    seeds = [unit.params.seed for unit in worker.units]  # type: ignore[union-attr]
    assert len(set(seeds)) == 4
    assert all(0 <= seed < 2**63 for seed in seeds)


async def test_every_parameter_travels(client: openai.AsyncOpenAI, worker: ScriptedWorker) -> None:
    await client.chat.completions.create(
        model="storyteller",
        messages=HELLO,
        max_completion_tokens=7,
        temperature=0.5,
        top_p=0.25,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        seed=11,
        stop=["\n", "END"],
        logit_bias={"7": -100},
        user="someone",
        reasoning_effort="low",
        response_format={"type": "json_object"},
        metadata={"a": "b"},
        store=False,
        service_tier="auto",
        extra_body={
            "top_k": 40,
            "min_p": 0.125,
            "repetition_penalty": 1.5,
            "chat_template_kwargs": {"enable_thinking": False},
        },
    )
    assert params_of(worker) == GenerateParams(
        chat=True,
        max_tokens=7,
        temperature=0.5,
        top_p=0.25,
        top_k=40,
        min_p=0.125,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        repetition_penalty=1.5,
        seed=11,
        stop=("\n", "END"),
        bias=((7, -100.0),),
        grammar=("json_object", ""),
        template='{"enable_thinking":false,"reasoning_effort":"low"}',
    )
    assert worker.units[-1].tenant.startswith("/")


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [
        ({"response_format": {"type": "text"}}, None),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"type": "object"}},
                }
            },
            ("json_schema", '{"type":"object"}'),
        ),
        ({"guided_json": {"type": "array"}}, ("json_schema", '{"type":"array"}')),
        ({"guided_regex": "a+"}, ("regex", "a+")),
        ({"guided_choice": ["a.b", "c d"]}, ("regex", "a\\.b|c d")),
        ({"guided_grammar": 'start: "a"'}, ("lark", 'start: "a"')),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, ("regex", "yes|no")),
        ({"structured_outputs": {"json_object": True}}, ("json_object", "")),
        ({"structured_outputs": {"json": {}}}, ("json_schema", "{}")),
    ],
)
async def test_forms_of_a_text(
    gateway: Served, worker: ScriptedWorker, fields: Any, grammar: Any
) -> None:
    body = {"model": "storyteller", "messages": HELLO, **fields}
    response = await gateway.post("/v1/chat/completions", body)
    assert response.status_code == 200, response.text
    assert params_of(worker).grammar == grammar


async def test_logprobs(client: openai.AsyncOpenAI, worker: ScriptedWorker) -> None:
    half = TokenLogprob("", b"\xf0\x9f", float("-inf"))
    says(worker, "Hi", logprobs=[token("Hi", -0.25, "Hi", "Ho"), half])
    options: Any = {"model": "storyteller", "messages": HELLO, "logprobs": True, "top_logprobs": 2}
    answer = await client.chat.completions.create(**options)
    assert params_of(worker).logprobs == 2
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.content is not None
    first, second = told.content
    assert (first.token, first.logprob, first.bytes) == ("Hi", -0.25, [72, 105])
    assert [(top.token, top.bytes) for top in first.top_logprobs] == [
        ("Hi", [72, 105]),
        ("Ho", [72, 111]),
    ]
    assert (second.token, second.logprob, second.bytes) == ("bytes:\\xf0\\x9f", -9999.0, [240, 159])
    streamed = await client.chat.completions.create(**options, stream=True)
    tokens: list[Any] = []
    async for chunk in streamed:
        for choice in chunk.choices:
            if choice.logprobs is not None:
                tokens += choice.logprobs.content or []
    assert tokens == told.content


# --- tools ----------------------------------------------------------------------------------------


async def test_tools_are_told_of_and_called(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    calls = [ToolCall("weather", '{"city":"Bonn"}'), ToolCall("weather", '{"city":"Ulm"}')]
    says(worker, "", finish="tool_calls", tool_calls=calls, reasoning="Two towns.")
    options: Any = {"model": "agent", "messages": HELLO, "tools": [WEATHER]}
    answer = await client.chat.completions.create(**options, tool_choice="required")
    params = params_of(worker)
    assert (json.loads(params.tools), params.tool_choice) == ([WEATHER], "required")
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.reasoning_content == "Two towns."
    told = choice.message.tool_calls
    assert told is not None
    assert [call.function.arguments for call in told] == [call.arguments for call in calls]
    assert len({call.id for call in told}) == 2
    one = await client.chat.completions.create(**options, parallel_tool_calls=False)
    assert len(one.choices[0].message.tool_calls or []) == 1


async def test_calls_in_a_stream_add_up(client: openai.AsyncOpenAI, worker: ScriptedWorker) -> None:
    calls = [ToolCall("weather", '{"city":"Bonn"}'), ToolCall("weather", "{}")]
    says(worker, "Wait.", finish="tool_calls", tool_calls=calls)
    async with client.chat.completions.stream(
        model="agent", messages=HELLO, tools=[WEATHER]
    ) as stream:
        final = await stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "Wait."
    assert [call.function.arguments for call in message.tool_calls or []] == [
        '{"city":"Bonn"}',
        "{}",
    ]
    assert final.choices[0].finish_reason == "tool_calls"


async def test_thoughts_and_calls_come_as_they_are_written(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)
    begun = asyncio.create_task(
        client.chat.completions.create(
            model="agent", messages=HELLO, tools=[WEATHER], stream=True, n=2
        )
    )
    await writing.come(2)
    second = next(n for n, (unit, _) in enumerate(writing.units) if unit.id.endswith(".1"))
    written: list[Delta] = [
        *(Thought("Two "), Thought("towns.")),
        *(Called(0, "weather", '{"city": '), Called(0, None, '"Bonn"}')),
        *(Called(1, "weather", '{"city": "'), Called(1, None, 'Ulm"}')),
    ]
    said: list[Any] = []
    writing.tell(*written, number=second)
    stream = await begun
    async for chunk in stream:
        (choice,) = chunk.choices
        assert choice.finish_reason is None, "nothing ended yet"
        if choice.index == 1 and choice.delta.role is None:
            said.append(choice.delta)
            calls = said[-1].tool_calls
            if calls and "Ulm" in calls[0].function.arguments:
                break
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in said) == (
        "Two towns."
    )
    calls = [call for delta in said for call in delta.tool_calls or []]
    named = [call for call in calls if call.id is not None]
    assert [(call.index, call.function.name, call.type) for call in named] == [
        (0, "weather", "function"),
        (1, "weather", "function"),
    ]
    assert {call.index for call in calls if call.function.name is None} <= {0, 1}
    told = [ToolCall("weather", f'{{"city": "{city}"}}') for city in ("Bonn", "Ulm")]
    more: Any = {"finish": "tool_calls", "tool_calls": told, "reasoning": "Two towns."}
    writing.whole("", number=second, **more)
    writing.whole("Hi", number=1 - second)
    rest = [choice async for chunk in stream for choice in chunk.choices]
    assert {(c.index, c.finish_reason) for c in rest if c.finish_reason} == {
        (0, "stop"),
        (1, "tool_calls"),
    }
    assert not [c for c in rest if c.delta.tool_calls], "each part came once"


async def test_calls_that_another_worker_writes_again_come_once(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    """As where the first one died: the second begins anew, and cuts its text otherwise."""
    writing = Writing(worker)
    final = asyncio.create_task(_final(client))
    await writing.come()
    writing.tell(Thought("Hm."), Called(0, "weather", '{"ci'), worker="first")
    again: list[Delta] = [Thought("H"), Thought("m."), Called(0, "weather", '{"city": "B')]
    writing.tell(*again, Called(0, None, 'onn"}'), Called(1, "weather", "{"), worker="second")
    calls = [ToolCall("weather", '{"city": "Bonn"}'), ToolCall("weather", "{}")]
    writing.whole("", finish="tool_calls", tool_calls=calls, reasoning="Hm.", worker="second")
    message = (await final).choices[0].message
    assert [call.function.arguments for call in message.tool_calls] == ['{"city": "Bonn"}', "{}"]
    assert message.reasoning_content == "Hm."


async def _final(client: openai.AsyncOpenAI) -> Any:
    async with client.chat.completions.stream(
        model="agent", messages=HELLO, tools=[WEATHER]
    ) as stream:
        return await stream.get_final_completion()


async def test_tokens_are_told_beside_calls(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    tokens = [token("{"), token("}")]
    writing = Writing(worker)

    def answer(unit: Unit, ack: str) -> None:
        writing(unit, ack)
        (piece,) = pieces_of(unit.id, [Called(0, "weather", "{")])
        packed = msgspec.msgpack.encode(tokens[:1])
        worker.send_piece(unit, msgspec.structs.replace(piece, told=packed))
        calls = [ToolCall("weather", "{}")]
        writing.whole("", finish="tool_calls", tool_calls=calls, logprobs=tokens)

    worker.answer = answer
    stream = await client.chat.completions.create(
        model="agent", messages=HELLO, tools=[WEATHER], logprobs=True, stream=True
    )
    told, arguments = [], ""
    async for chunk in stream:
        (choice,) = chunk.choices
        told += [] if choice.logprobs is None else choice.logprobs.content or []
        arguments += "".join(c.function.arguments for c in choice.delta.tool_calls or [])  # type: ignore[union-attr,misc]
    assert ([one.token for one in told], arguments) == (["{", "}"], "{}")


async def test_a_second_call_that_is_not_wanted_is_not_told(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)

    def answer(unit: Unit, ack: str) -> None:
        writing(unit, ack)
        writing.tell(Called(0, "weather", "{}"), Called(1, "weather", "{}"))
        calls = [ToolCall("weather", "{}")] * 2
        writing.whole("", finish="tool_calls", tool_calls=calls)

    worker.answer = answer
    async with client.chat.completions.stream(
        model="agent", messages=HELLO, tools=[WEATHER], parallel_tool_calls=False
    ) as stream:
        final = await stream.get_final_completion()
    assert len(final.choices[0].message.tool_calls or []) == 1


async def test_one_tool_may_be_named_or_all_be_left_alone(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    options: Any = {"model": "agent", "messages": HELLO, "tools": [WEATHER]}
    named: Any = {"type": "function", "function": {"name": "weather"}}
    await client.chat.completions.create(**options, tool_choice=named)
    assert params_of(worker).tool_choice == "weather"
    await client.chat.completions.create(**options, tool_choice="none")
    assert params_of(worker).tools == ""


async def test_a_tool_s_answer_is_part_of_the_conversation(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages: Any = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "Rain."},
    ]
    await client.chat.completions.create(model="agent", messages=messages, tools=[WEATHER])
    assert json.loads(worker.units[-1].items[0])["messages"] == messages


async def test_images_go_along_where_the_model_takes_them(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    parts: list[Any] = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    messages: Any = [{"role": "user", "content": parts}]
    await client.chat.completions.create(model="seer", messages=messages)
    unit = worker.units[-1]
    assert json.loads(unit.items[0])["messages"] == messages
    url = parts[1]["image_url"]["url"]
    assert params_of(worker).read_bytes == len(unit.items[0]) - len(url) + IMAGE_BYTES
    with pytest.raises(
        openai.BadRequestError, match="'storyteller' takes text; ask one that does more: seer"
    ):
        await client.chat.completions.create(model="storyteller", messages=messages)
    parts[1]["image_url"] = {"url": "https://example.org/a.png"}
    with pytest.raises(openai.BadRequestError, match="data: URLs"):
        await client.chat.completions.create(model="seer", messages=messages)


# --- what goes wrong ------------------------------------------------------------------------------


async def test_the_official_client_raises_what_a_text_failed_with(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    options: Any = {"model": "storyteller", "messages": HELLO}
    for stream in (False, True):
        writing = Writing(worker)

        def answer(unit: Unit, ack: str, writing: Writing = writing) -> None:
            writing(unit, ack)
            writing.fail(ErrorInfo("too_many_tokens", "9000 tokens; the model takes 8192", 400))

        worker.answer = answer
        with pytest.raises(openai.BadRequestError, match="9000 tokens") as caught:
            await client.chat.completions.create(**options, stream=stream)
        assert (caught.value.code, caught.value.param) == ("too_many_tokens", "messages")


@pytest.mark.parametrize(
    ("asked", "said", "param"),
    [
        ({"logit_bias": {"9999": 1}}, "bias", "logit_bias"),
        ({"response_format": {"type": "json_object"}}, "json", "response_format"),
        ({"extra_body": {"guided_choice": ["a"]}}, "regex", "guided_choice"),
        (
            {"extra_body": {"structured_outputs": {"grammar": "s"}}},
            "grammar",
            "structured_outputs.grammar",
        ),
    ],
)
async def test_a_parameter_that_the_worker_names_is_at_fault_and_no_message(
    client: openai.AsyncOpenAI, worker: ScriptedWorker, asked: Any, said: str, param: str
) -> None:
    writing = Writing(worker)

    def answer(unit: Unit, ack: str) -> None:
        number = len(writing.units)
        writing(unit, ack)
        error = ErrorInfo("invalid_request", "it is none", 400, param=said)
        writing.fail(error, number=number)

    worker.answer = answer
    options: Any = {"model": "storyteller", "messages": HELLO, **asked}
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="400 - it is none") as caught:
            await client.chat.completions.create(**options, stream=stream)
        assert caught.value.param == param


async def test_an_error_in_a_stream_is_its_last_event(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)

    def answer(unit: Unit, ack: str) -> None:
        writing(unit, ack)
        writing.piece("Hi", 0)

    worker.answer = answer
    stream = await client.chat.completions.create(model="storyteller", messages=HELLO, stream=True)
    await anext(stream)
    await anext(stream)
    writing.fail(ErrorInfo("compute_failed", "out of memory", 500))
    with pytest.raises(openai.APIError, match="out of memory") as caught:
        await anext(stream)
    assert (caught.value.code, caught.value.type) == ("compute_failed", "server_error")


async def test_a_model_that_does_not_generate_names_those_that_do(
    client: openai.AsyncOpenAI,
) -> None:
    with pytest.raises(openai.BadRequestError, match=r"cannot generate: it does encode.*agent"):
        await client.chat.completions.create(model="tiny", messages=HELLO)


BAD: list[tuple[dict[str, Any], str, str | None]] = [
    ({"messages": []}, "messages is empty", "messages"),
    ({"messages": "Hello"}, "Expected `array`", "messages"),
    ({"messages": [{"role": "user"}]}, "has no content", "messages[0].content"),
    ({"messages": [{"role": "bot", "content": "a"}]}, "Invalid enum value 'bot'", None),
    ({"messages": [{"content": "a"}]}, "missing", None),
    ({"messages": [{"role": "assistant"}]}, "has no content", "messages[0].content"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "has no text",
        "messages[0].content[0]",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]},
        "of the type file",
        "messages[0].content[0]",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        "takes text",
        "messages[0].content[0]",
    ),
    ({"temprature": 1}, "did you mean 'temperature'", "temprature"),
    ({"temperature": 3}, "it is from 0 to 2", "temperature"),
    ({"temperature": "hot"}, "Expected", "temperature"),
    ({"top_p": -1}, "it is from 0 to 1", "top_p"),
    ({"top_k": -2}, "it is from 0", "top_k"),
    ({"max_tokens": 0}, "it is from 1", "max_tokens"),
    ({"max_completion_tokens": -1}, "it is from 1", "max_completion_tokens"),
    ({"presence_penalty": 3}, "it is from -2 to 2", "presence_penalty"),
    ({"repetition_penalty": 0}, "it is from 0.01", "repetition_penalty"),
    ({"n": 0}, "it is from 1 to 128", "n"),
    ({"n": 129}, "it is from 1 to 128", "n"),
    ({"seed": 2**63}, "seed", "seed"),
    ({"stop": [""]}, "0 characters", "stop"),
    ({"stop": ["a"] * 17}, "it may have 16", "stop"),
    ({"logit_bias": {"a": 1}}, "logit_bias", None),
    ({"logit_bias": {"7": 101}}, "-100 to 100", "logit_bias"),
    ({"top_logprobs": 2}, "needs logprobs", "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "it is from 0 to 20", "top_logprobs"),
    ({"response_format": {"type": "xml"}}, "use text, json_object", "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "no schema", "response_format.json_schema"),
    ({"guided_regex": ""}, "is empty", "guided_regex"),
    ({"guided_choice": []}, "guided_choice names nothing", "guided_choice"),
    (
        {"structured_outputs": {"choice": [""]}},
        "choice names nothing",
        "structured_outputs.choice",
    ),
    ({"guided_regex": "a", "guided_grammar": "b"}, "keep to one form", None),
    (
        {"guided_regex": "a", "response_format": {"type": "json_object"}},
        "keep to one form",
        "response_format",
    ),
    ({"structured_outputs": {"structural_tag": "a"}}, "unknown key", None),
    ({"model": "agent", "tools": [{"type": "custom"}]}, "of the type function", "tools[0]"),
    ({"model": "agent", "tools": [{"function": {}}]}, "has no name", "tools[0].function"),
    ({"tool_choice": "required"}, "there are no tools", "tool_choice"),
    ({"tool_choice": {"type": "allowed_tools"}}, "name one function", "tool_choice"),
    (
        {
            "model": "agent",
            "tools": [WEATHER],
            "tool_choice": {"type": "function", "function": {"name": "wether"}},
        },
        "did you mean 'weather'",
        "tool_choice",
    ),
    ({"functions": [{}]}, "use tools", "functions"),
    ({"function_call": "auto"}, "use tool_choice", "function_call"),
    ({"modalities": ["text", "audio"]}, "text is generated", "modalities"),
    ({"audio": {"voice": "x"}}, "not served", "audio"),
    ({"web_search_options": {}}, "not served", "web_search_options"),
]


@pytest.mark.parametrize(("fields", "message", "param"), BAD)
async def test_what_cannot_be_done_is_refused_by_name(
    gateway: Served, worker: ScriptedWorker, fields: Any, message: str, param: str | None
) -> None:
    body = {"model": "storyteller", "messages": HELLO, **fields}
    response = await gateway.post("/v1/chat/completions", body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert message in error["message"]
    assert error["type"] == "invalid_request_error"
    if param is not None:
        assert error["param"] == param
    assert worker.units == []


@pytest.mark.parametrize(
    "fields",
    [
        {"functions": None, "tools": None, "stop": None, "n": None, "response_format": None},
        {"prediction": {"type": "content", "content": "a"}, "prompt_cache_key": "k"},
        {"top_p": 0, "top_k": -1, "tool_choice": "none"},
        {"stream_options": {"include_usage": True, "include_obfuscation": False}},
        {"modalities": ["text"], "parallel_tool_calls": True},
    ],
)
async def test_what_changes_nothing_is_let_pass(
    gateway: Served, worker: ScriptedWorker, fields: Any
) -> None:
    body = {"model": "storyteller", "messages": HELLO, **fields}
    response = await gateway.post("/v1/chat/completions", body)
    assert response.status_code == 200, response.text

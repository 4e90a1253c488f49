"""A real model through a whole `shoal serve`, asked as OpenAI's client asks: texts, calls that must be made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from shoal.bench.serving import Serving
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog

CARD = """\
name: small
source: {{dir: {folder}}}
family: llama
tasks: {{generate: {{temperature: 0, tools: hermes}}}}
max_tokens: 2048
profiles: {{default: {{dtype: float32, sequences: 4}}}}
"""
ASKED: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "How the weather is in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
            "required": ["city", "unit"],
        },
    },
}


@pytest.fixture(scope="module")
def folder() -> Path:
    return fetch(Catalog.load([]).card("smollm2-135m-instruct"), cache_dir=None, offline=False)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[openai.OpenAI]:
    with (
        Serving(["small"], cards={"small": CARD.format(folder=folder)}) as serving,
        openai.OpenAI(base_url=f"{serving.url}/v1", api_key="any", timeout=100) as made,
    ):
        yield made


def test_a_chat_is_what_transformers_makes_of_it(client: openai.OpenAI, folder: Path) -> None:
    template = (folder / "chat_template.jinja").read_text()
    kind: Any = PreTrainedTokenizerFast
    tokenizer = kind(tokenizer_file=str(folder / "tokenizer.json"), chat_template=template)
    model: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    prompt = tokenizer.apply_chat_template(ASKED, add_generation_prompt=True)["input_ids"]
    ids = model.generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False)[0].tolist()
    expected = tokenizer.decode(ids[len(prompt) :], skip_special_tokens=True)
    made = client.chat.completions.create(model="small", messages=ASKED, max_tokens=40)
    assert made.choices[0].message.content == expected
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (
        len(prompt),
        len(ids) - len(prompt),
    )


def test_likelihoods_are_of_the_bytes_of_the_text(client: openai.OpenAI) -> None:
    made = client.chat.completions.create(
        model="small", messages=ASKED, max_tokens=40, logprobs=True, top_logprobs=2
    )
    told = made.choices[0].logprobs
    assert told is not None and told.content is not None
    data = b"".join(bytes(token.bytes or []) for token in told.content)
    assert data.decode() == made.choices[0].message.content
    assert all(token.top_logprobs[0].token == token.token for token in told.content), "greedy"


def test_a_stop_text_ends_a_stream(client: openai.OpenAI) -> None:
    pieces = client.chat.completions.create(
        model="small", messages=ASKED, max_tokens=40, stop=[" of F"], stream=True
    )
    choices = [piece.choices[0] for piece in pieces if piece.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == "The capital"
    assert choices[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "weather"}}]
)
def test_a_call_that_must_be_made_fits_its_schema(client: openai.OpenAI, choice: Any) -> None:
    pytest.importorskip("llguidance")
    asked: list[Any] = [{"role": "user", "content": "How is the weather in Paris?"}]
    made = client.chat.completions.create(
        model="small", messages=asked, tools=[WEATHER], tool_choice=choice, max_tokens=200
    )
    (call, *_) = made.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {"city", "unit"}
    assert isinstance(arguments["city"], str) and arguments["unit"] in ("C", "F")


def test_a_call_comes_in_a_stream_as_it_is_written(client: openai.OpenAI) -> None:
    pytest.importorskip("llguidance")
    named: Any = {"type": "function", "function": {"name": "weather"}}
    asked: list[Any] = [{"role": "user", "content": "How is the weather in Paris?"}]
    options: Any = {"model": "small", "messages": asked, "tools": [WEATHER], "tool_choice": named}
    whole = client.chat.completions.create(**options, max_tokens=80).choices[0]
    with client.chat.completions.stream(**options, max_tokens=80) as stream:
        kinds = [event.type for event in stream]
        choice = stream.get_final_completion().choices[0]
    assert kinds.count("tool_calls.function.arguments.delta") > 5
    assert not choice.message.content, "no tag is text"
    calls: list[Any] = [*(choice.message.tool_calls or []), *(whole.message.tool_calls or [])]
    streamed, told = [(call.function.name, call.function.arguments) for call in calls]
    assert streamed == told
    assert choice.finish_reason == whole.finish_reason == "tool_calls"


def test_a_call_comes_in_a_stream_of_responses(client: openai.OpenAI) -> None:
    pytest.importorskip("llguidance")
    options: Any = {
        "model": "small",
        "input": "How is the weather in Paris?",
        "tools": [{"type": "function", **WEATHER["function"]}],
        "tool_choice": {"type": "function", "name": "weather"},
        "max_output_tokens": 80,
    }
    (whole,) = client.responses.create(**options).output
    with client.responses.stream(**options) as stream:
        kinds = [event.type for event in stream]
        (item,) = stream.get_final_response().output
    assert kinds.count("response.function_call_arguments.delta") > 5
    assert item.type == whole.type == "function_call"
    assert (item.name, item.arguments) == (whole.name, whole.arguments)

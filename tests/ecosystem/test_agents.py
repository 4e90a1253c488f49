"""OpenAI's Agents SDK, over responses and over chat, against a real model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from shoal.bench.serving import Serving
from tests.ecosystem.conftest import CHAT, Run
from tests.ecosystem.snippets import KEY, MISSING

agents = pytest.importorskip("agents", reason=MISSING)
agents.set_tracing_disabled(True)


def agent(serving: Serving, kind: str, **settings: Any) -> Any:
    client = AsyncOpenAI(base_url=f"{serving.url}/v1", api_key=KEY)
    model = getattr(agents, kind)(CHAT, client)
    return agents.Agent(
        name="a", model=model, model_settings=agents.ModelSettings(temperature=0, **settings)
    )


KINDS = ["OpenAIResponsesModel", "OpenAIChatCompletionsModel"]


def test_a_tool_is_called_and_its_answer_read(chat: Run) -> None:
    names = chat("openai-agents")
    assert names["asked"]
    assert len(names["result"].raw_responses) == 2
    assert names["result"].final_output


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_is_the_output(serving: Serving, kind: str) -> None:
    run = agents.Runner.run_streamed(agent(serving, kind), "Why is the sea salty? One sentence.")
    pieces = [
        event.data.delta
        async for event in run.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert "".join(pieces) == run.final_output
    assert len(pieces) > 3


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_is_called_in_a_stream(serving: Serving, kind: str) -> None:
    asked = []

    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "It rains."

    made = agent(serving, kind, max_tokens=60, tool_choice="weather")
    made = made.clone(tools=[agents.function_tool(weather)])
    run = agents.Runner.run_streamed(made, "What is the weather in Bonn?")
    raw, items = [], []
    async for event in run.stream_events():
        if event.type == "raw_response_event":
            raw.append(event.data)
        elif event.type == "run_item_stream_event":
            items.append(event.name)
    kinds = [one.type for one in raw]
    assert kinds.count("response.function_call_arguments.delta") > 3, "as they are written"
    done = kinds.index("response.output_item.done")
    arguments = [
        one.delta for one in raw[:done] if one.type == "response.function_call_arguments.delta"
    ]
    assert [json.loads("".join(arguments))["city"]] == asked
    assert items[:2] == ["tool_called", "tool_output"]
    assert run.final_output


@pytest.mark.parametrize("kind", KINDS)
async def test_an_output_of_a_type(serving: Serving, kind: str) -> None:
    typed = agent(serving, kind, max_tokens=60).clone(output_type=list[bool])
    run = await agents.Runner.run(typed, "Is the sea salty? Is the moon far?")
    assert all(isinstance(said, bool) for said in run.final_output)

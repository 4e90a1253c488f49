"""What a request of OpenAI's Responses may say, and how it maps to ours.

Decides which fields are refused and which have no effect.
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.errors import InvalidRequest
from shoal.gateway.compat.generation import (
    NoEffect,
    Refused,
    ResponseFormat,
    ResponseSchema,
    chosen_tool,
    refuse,
)
from shoal.gateway.sampling import GenerateOptions

#: What of `include` there is.
LOGPROBS = "message.output_text.logprobs"
_KEPT_NOTHING = "nothing is kept between requests, send the whole conversation as input"
_REFUSED = {
    "previous_response_id": _KEPT_NOTHING,
    "conversation": _KEPT_NOTHING,
    "prompt": "no prompts are kept, send it as instructions",
    "context_management": "the conversation is read as it was sent",
    "moderation": "ask /v1/moderations",
}

INPUT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "object"}, "minItems": 1},
    ]
}


class TextFormat(msgspec.Struct, frozen=True):
    """`text`, `json_object`, or `json_schema` with its schema beside it."""

    type: str = "text"
    name: str = ""
    schema: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None


class TextConfig(msgspec.Struct, frozen=True):
    """What form the text has."""

    format: TextFormat | None = None
    verbosity: Refused = None


class Reasoning(msgspec.Struct, frozen=True):
    """`effort` is given to the model's chat template."""

    effort: str | None = None
    summary: NoEffect = None
    generate_summary: NoEffect = None


class ResponsesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Body of an OpenAI responses request."""

    input: Annotated[
        msgspec.Raw,
        Meta(
            description="A text, or items: messages, calls of functions and what came of them.",
            extra_json_schema=INPUT_SCHEMA,
        ),
    ]
    model: Annotated[
        str | None, Meta(description="A model's name or alias; unset: the one that generates.")
    ] = None
    include: Annotated[
        list[str] | None, Meta(description=f"`{LOGPROBS}`; nothing else is there.")
    ] = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    stream: bool | None = None
    temperature: float | None = None
    text: TextConfig | None = None
    tool_choice: str | dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    user: Annotated[
        str | None, Meta(description="Who of the caller's own users asks; users take turns.")
    ] = None

    seed: int | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    background: Annotated[bool | None, Meta(description="`true` is refused.")] = None
    store: Annotated[bool | None, Meta(description="`true` is refused.")] = None
    truncation: Annotated[str | None, Meta(description="`disabled`.")] = None

    max_tool_calls: NoEffect = None
    prompt_cache_key: NoEffect = None
    prompt_cache_options: NoEffect = None
    prompt_cache_retention: NoEffect = None
    safety_identifier: NoEffect = None
    service_tier: NoEffect = None
    stream_options: NoEffect = None

    context_management: Refused = None
    conversation: Refused = None
    moderation: Refused = None
    previous_response_id: Refused = None
    prompt: Refused = None

    @property
    def format(self) -> TextFormat:
        return (self.text or TextConfig()).format or TextFormat()


def check(body: ResponsesBody) -> None:
    """Raises `InvalidRequest` for what cannot be done."""
    refuse(body, _REFUSED)
    if body.store:
        raise InvalidRequest(f"store: {_KEPT_NOTHING}", param="store")
    if body.background:
        raise InvalidRequest("background: nobody could fetch the response", param="background")
    if body.truncation not in (None, "disabled"):
        raise InvalidRequest(
            "truncation: no item is left out; send a shorter conversation", param="truncation"
        )
    if body.text is not None:
        refuse(body.text, {"verbosity": "say in a message how long the text is to be"})
    for name in body.include or []:
        if name != LOGPROBS:
            raise InvalidRequest(f"include: there is no '{name[:80]}' here", param="include")


def named(option: str) -> str:
    """What an option is called here."""
    names = {
        "max_tokens": "max_output_tokens",
        "logprobs": "top_logprobs",
        "schema": "text.format",
        "json": "text.format",
        "template": "reasoning",
    }
    return names.get(option, option)


def options(body: ResponsesBody) -> GenerateOptions:
    """What is asked of the text. Raises `InvalidRequest`."""
    given, effort = body.format, (body.reasoning or Reasoning()).effort
    schema = ResponseSchema(given.name, given.schema)
    told = LOGPROBS in (body.include or []) or body.top_logprobs
    return GenerateOptions(
        max_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=0 if body.top_k == -1 else body.top_k,
        min_p=body.min_p,
        repetition_penalty=body.repetition_penalty,
        logprobs=(body.top_logprobs or 0) if told else None,
        tools=[_tool(tool, f"tools[{n}]") for n, tool in enumerate(body.tools or [])],
        tool_choice=chosen_tool(body.tool_choice),
        template={} if effort is None else {"reasoning_effort": effort},
        **ResponseFormat(given.type, schema).forms("text.format"),
    )


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    """A function as chat has it. Raises `InvalidRequest`."""
    if tool.get("type") != "function":
        raise InvalidRequest(
            f"{where} is of the type {str(tool.get('type'))[:40]}: functions can be called, and "
            f"nothing here has tools of its own",
            param=where,
        )
    told = ("name", "description", "parameters")
    return {
        "type": "function",
        "function": {name: tool[name] for name in told if tool.get(name) is not None},
    }

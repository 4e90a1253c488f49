"""The shape of OpenAI's responses: the items of an output, and what is said of a request.

https://platform.openai.com/docs/api-reference/responses/object
"""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec

from shoal.errors import ErrorInfo
from shoal.gateway.compat.chat_answers import ContentLogprob, content_logprob
from shoal.gateway.compat.responses.bodies import ResponsesBody
from shoal.gateway.counts import Counts
from shoal.wire.objects import Generation

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(msgspec.Struct, frozen=True):
    """A part of a message."""

    text: str
    type: Literal["output_text"] = "output_text"
    annotations: list[Any] = []
    logprobs: list[ContentLogprob] = []


class OutputMessage(msgspec.Struct, frozen=True, tag_field="type", tag="message"):
    """What the model said."""

    id: str
    content: list[OutputText]
    status: Status
    role: Literal["assistant"] = "assistant"


class FunctionCall(msgspec.Struct, frozen=True, tag_field="type", tag="function_call"):
    """What the model wants called."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: Status


class ReasoningText(msgspec.Struct, frozen=True):
    """A part of what the model thought."""

    text: str
    type: Literal["reasoning_text"] = "reasoning_text"


class ReasoningItem(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning"):
    """What the model thought before it answered."""

    id: str
    content: list[ReasoningText]
    status: Status
    summary: list[Any] = []


OutputItem = OutputMessage | FunctionCall | ReasoningItem


class CachedInput(msgspec.Struct, frozen=True):
    """Of the input, what had been computed before."""

    cached_tokens: int
    cache_write_tokens: int = 0


class ReasoningTokens(msgspec.Struct, frozen=True):
    """They are counted with the others here."""

    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, frozen=True):
    """Tokens of a request."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: CachedInput
    output_tokens_details: ReasoningTokens = ReasoningTokens()


class ResponseError(msgspec.Struct, frozen=True):
    """Why a response failed."""

    code: str
    message: str


class Incomplete(msgspec.Struct, frozen=True):
    """Why a response ended early."""

    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseObject(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's response: what was asked, and what came of it."""

    id: str
    created_at: int
    status: Status
    model: str
    output: list[OutputItem] = []
    usage: ResponseUsage | None = None
    error: ResponseError | None = None
    incomplete_details: Incomplete | None = None
    completed_at: int | None = None
    object: Literal["response"] = "response"

    background: bool = False
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    previous_response_id: None = None
    reasoning: dict[str, str | None]
    store: bool = False
    temperature: float | None
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float | None
    truncation: Literal["disabled"] = "disabled"
    user: str | None


class Asked(msgspec.Struct, frozen=True):
    """A request that is answered: `key` is unique, and ids are made of it."""

    key: str
    model: str
    created_at: int
    body: ResponsesBody

    def id(self, kind: str, number: int = 0) -> str:
        """Of an item of a kind, such as ``msg``."""
        return f"{kind}_{self.key.replace('-', '')}_{number}"

    def response(self, status: Status, **more: Any) -> ResponseObject:
        """What is said of it now."""
        body = self.body
        return ResponseObject(
            id=f"resp_{self.key.replace('-', '')}",
            created_at=self.created_at,
            status=status,
            model=self.model,
            instructions=body.instructions,
            max_output_tokens=body.max_output_tokens,
            metadata=body.metadata or {},
            parallel_tool_calls=body.parallel_tool_calls is not False,
            reasoning={"effort": None if body.reasoning is None else body.reasoning.effort},
            temperature=body.temperature,
            text={"format": _format(body)},
            tool_choice=body.tool_choice or "auto",
            tools=body.tools or [],
            top_logprobs=body.top_logprobs or 0,
            top_p=body.top_p,
            user=body.user,
            **more,
        )

    def ended(self, whole: Generation, counts: Counts, output: list[OutputItem]) -> ResponseObject:
        """What came of it in the end."""
        status = status_of(whole)
        return self.response(
            status,
            output=output,
            usage=_usage(counts),
            incomplete_details=Incomplete() if status == "incomplete" else None,
            completed_at=int(time.time()),
        )

    def failed(self, error: ErrorInfo) -> ResponseObject:
        """Nothing did."""
        return self.response("failed", error=ResponseError(error.code, error.message))

    # --- the items of an output -------------------------------------------------------------------

    def message(
        self, number: int, text: str, told: list[ContentLogprob], status: Status
    ) -> OutputMessage:
        """What the model said."""
        return OutputMessage(self.id("msg", number), [OutputText(text, logprobs=told)], status)

    def reasoning(self, text: str, status: Status) -> ReasoningItem:
        """What it thought before."""
        return ReasoningItem(self.id("rs"), [ReasoningText(text)], status)

    def call(self, number: int, name: str, arguments: str, status: Status) -> FunctionCall:
        """What it wants called."""
        return FunctionCall(self.id("fc", number), self.id("call", number), name, arguments, status)

    def tells(self, call: int) -> bool:
        """Whether the call of this number is told."""
        return call == 0 or self.body.parallel_tool_calls is not False

    def output(self, whole: Generation) -> list[OutputItem]:
        """All of it; the last item is where it was cut off, if it was."""
        items: list[OutputItem] = []
        calls = [c for c in enumerate(whole.tool_calls) if self.tells(c[0])]
        if whole.reasoning:
            items.append(self.reasoning(whole.reasoning, "completed"))
        if whole.text or not calls:
            told = [content_logprob(token) for token in whole.logprobs or []]
            items.append(self.message(0, whole.text, told, "completed"))
        items += [self.call(n, c.name, c.arguments, "completed") for n, c in calls]
        items[-1] = msgspec.structs.replace(items[-1], status=status_of(whole))
        return items


def status_of(whole: Generation) -> Literal["incomplete", "completed"]:
    """Of a text and of what came last in it."""
    return "incomplete" if whole.finish == "length" else "completed"


def _format(body: ResponsesBody) -> dict[str, Any]:
    given = body.format
    if given.type != "json_schema":
        return {"type": given.type}
    return {
        "type": given.type,
        "name": given.name,
        "schema": given.schema,
        "strict": given.strict is not False,
    }


def _usage(counts: Counts) -> ResponseUsage:
    read, new = counts.prompt_tokens, counts.new_tokens
    return ResponseUsage(read, new, read + new, CachedInput(counts.cached_tokens))

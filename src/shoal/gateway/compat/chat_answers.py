"""The shapes of OpenAI's chat: a whole answer, and the chunks of a stream.

https://platform.openai.com/docs/api-reference/chat/object,
https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import time
from typing import Literal, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from shoal.errors import ErrorInfo
from shoal.gateway.compat.generation import (
    CompletionUsage,
    logprob,
    token_text,
    usage,
)
from shoal.gateway.counts import Counts, counts_of
from shoal.gateway.envelope import openai
from shoal.gateway.feed import Growth
from shoal.gateway.growing import read_generation
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.streaming import DONE, event
from shoal.tasks.generate.answer import Called, Delta, Said, Thought
from shoal.wire.objects import Generation, TokenLogprob, ToolCall

Finish = Literal["stop", "length", "tool_calls"]


class Form(msgspec.Struct, frozen=True):
    """How a request is answered.

    Attributes:
        key: unique; ids are made of it.
        model: as the caller named it.
        n: choices.
        with_usage: a stream tells its tokens at its end.
        parallel: all calls of tools are told, else the first.
    """

    key: str
    model: str
    n: int
    with_usage: bool
    parallel: bool

    def calls(self, whole: Generation, choice: int) -> list[tuple[str, ToolCall]]:
        """What the model wants called, each with its id."""
        calls = enumerate(whole.tool_calls)
        return [(self.call_id(choice, n), call) for n, call in calls if self.tells(n)]

    def tells(self, call: int) -> bool:
        """Whether a call is told."""
        return self.parallel or call == 0

    def call_id(self, choice: int, call: int) -> str:
        """Of a call, by its number in its choice."""
        return f"call_{self.key.replace('-', '')}_{choice}_{call}"


class TopLogprob(msgspec.Struct, frozen=True):
    """A token that could have stood there."""

    token: str
    logprob: float
    bytes: list[int]


class ContentLogprob(msgspec.Struct, frozen=True):
    """A token, and the likeliest in its place."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct, frozen=True):
    """Of the tokens of all that was generated."""

    content: list[ContentLogprob]
    refusal: None = None


class CalledFunction(msgspec.Struct, frozen=True):
    """`arguments`: JSON, as the model wrote them."""

    name: str
    arguments: str


class ChatToolCall(msgspec.Struct, frozen=True):
    """What the model wants called."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class FunctionDelta(msgspec.Struct, frozen=True):
    """What comes to a call: its `name` at first, and more of its arguments."""

    arguments: str
    name: str | UnsetType = UNSET


class ToolCallDelta(msgspec.Struct, frozen=True):
    """What comes to the call of this `index`; `id` and `type` at first."""

    index: int
    function: FunctionDelta
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET


class ChatMessage(msgspec.Struct, frozen=True):
    """What the model said. `reasoning_content`: what it thought before."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: None = None
    tool_calls: list[ChatToolCall] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET


class ChatChoice(msgspec.Struct, frozen=True):
    """One of `n`."""

    index: int
    message: ChatMessage
    finish_reason: Finish
    logprobs: ChatLogprobs | None = None


class ChatAnswer(msgspec.Struct, frozen=True):
    """OpenAI's chat completion."""

    id: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: CompletionUsage
    object: Literal["chat.completion"] = "chat.completion"


class ChatDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What comes to a message."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    reasoning_content: str | None = None


class ChunkChoice(msgspec.Struct, frozen=True):
    """What comes to one of `n`."""

    index: int
    delta: ChatDelta
    finish_reason: Finish | None = None
    logprobs: ChatLogprobs | None = None


class ChatChunk(msgspec.Struct, frozen=True):
    """An event of a stream. `usage`: null but in the last one, and there only if it is asked for."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    usage: CompletionUsage | UnsetType | None = UNSET


def chat_answer(form: Form, items: list[ItemAnswer]) -> ChatAnswer:
    """Of items none of which failed. Raises `ProtocolError`."""
    choices = [_choice(form, item.position, read_generation(item.told)) for item in items]
    counts = [(item.position, counts_of(item)) for item in items]
    told = usage(counts, form.n)
    return ChatAnswer(f"chatcmpl-{form.key}", int(time.time()), form.model, choices, told)


def _choice(form: Form, index: int, whole: Generation) -> ChatChoice:
    calls = form.calls(whole, index)
    message = ChatMessage(
        whole.text if whole.text or not calls else None,
        tool_calls=[_call(id_, call) for id_, call in calls] or UNSET,
        reasoning_content=whole.reasoning or UNSET,
    )
    return ChatChoice(index, message, whole.finish, logprobs_of(whole.logprobs))


def _call(id_: str, call: ToolCall) -> ChatToolCall:
    return ChatToolCall(id_, CalledFunction(call.name, call.arguments))


def logprobs_of(told: list[TokenLogprob] | None) -> ChatLogprobs | None:
    """None where nothing is told."""
    return None if told is None else ChatLogprobs([content_logprob(token) for token in told])


def content_logprob(token: TokenLogprob) -> ContentLogprob:
    """A token as OpenAI shows it."""
    top = [TopLogprob(token_text(t), logprob(t.logprob), list(t.bytes)) for t in token.top]
    return ContentLogprob(token_text(token), logprob(token.logprob), list(token.bytes), top)


class ChatEvents:
    """The chunks of one stream: each choice's role first, its reason last, then `[DONE]`."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._id = f"chatcmpl-{form.key}"
        self._created = int(time.time())
        self._counts: list[tuple[int, Counts]] = []

    def begin(self) -> bytes:
        role = ChatDelta(role="assistant", content="")
        return b"".join([self._chunk(ChunkChoice(n, role)) for n in range(self._form.n)])

    def grown(self, growth: Growth) -> bytes:
        item, told = growth.item, logprobs_of(growth.told or None)
        deltas = [d for delta in growth.deltas if (d := self._delta(item, delta)) is not None]
        if told is not None and not deltas:
            deltas = [ChatDelta(content="")]
        choices = [ChunkChoice(item, delta) for delta in deltas]
        if told is not None:  # of all that came
            choices[0] = msgspec.structs.replace(choices[0], logprobs=told)
        if growth.answer is not None and growth.whole is not None:
            self._counts.append((item, counts_of(growth.answer)))
            choices.append(ChunkChoice(item, ChatDelta(), growth.whole.finish))
        return b"".join([self._chunk(choice) for choice in choices])

    def _delta(self, item: int, delta: Delta) -> ChatDelta | None:
        """None of a call that is not told."""
        match delta:
            case Said(text):
                return ChatDelta(content=text)
            case Thought(text):
                return ChatDelta(reasoning_content=text)
            case Called(index):
                told = [self._called(item, delta)] if self._form.tells(index) else None
                return None if told is None else ChatDelta(tool_calls=told)
            case _:
                assert_never(delta)

    def _called(self, item: int, called: Called) -> ToolCallDelta:
        function = FunctionDelta(called.text, UNSET if called.name is None else called.name)
        if called.name is None:
            return ToolCallDelta(called.index, function)
        id_ = self._form.call_id(item, called.index)
        return ToolCallDelta(called.index, function, id_, "function")

    def end(self) -> bytes:
        if not self._form.with_usage:
            return DONE
        told = usage(self._counts, self._form.n)
        last = ChatChunk(self._id, self._created, self._form.model, [], usage=told)
        return event(last) + DONE

    def failed(self, error: ErrorInfo) -> bytes:
        return event(openai(error))

    def _chunk(self, choice: ChunkChoice) -> bytes:
        unknown = None if self._form.with_usage else UNSET
        form = self._form
        return event(ChatChunk(self._id, self._created, form.model, [choice], usage=unknown))

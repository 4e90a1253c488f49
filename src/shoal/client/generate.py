"""`generate` as the client has it: what may be asked, what an item may be, and how answers become objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from shoal.client.failures import ErrorBody
from shoal.client.items import Given, Item, conversation, item_of
from shoal.client.question import Asked
from shoal.client.result import Collector, Told
from shoal.client.turn import TurnOptions, headers_of
from shoal.errors import ProtocolError
from shoal.wire.objects import Generation, TokenLogprob, ToolCall

#: A conversation: its messages, ``{"role": "user", "content": "…"}`` each, or a map with them.
Messages = Sequence[Mapping[str, Any]] | Mapping[str, Any]
Prompt = Given | Messages
Prompts = Prompt | Sequence[Prompt]

#: Generating takes so long that of many texts few belong in one request.
REQUEST_ITEMS = 8


class GenerateOptions(TurnOptions, total=False):
    """What may be asked of `generate` and `stream` by keyword.

    Attributes:
        max_tokens: most that are generated; unset: as the card says, or what the model has room for.
        temperature: 0 takes the likeliest token each time; unset: as the model's card says.
        top_p, top_k, min_p: of which tokens one is drawn.
        presence_penalty, frequency_penalty, repetition_penalty: of tokens that were there before.
        seed: the same one gives the same text; unset: one is drawn.
        stop: what ends the text, and is no part of it.
        logprobs: tell each token, and so many that could have stood there.
        bias: token id to what is added to its logit.
        json, schema, regex, grammar: the text is a JSON object; JSON of this schema; one that this
            expression matches; one of this grammar, in Lark. One of them.
        tools: of conversations, what may be called, in OpenAI's shape.
        tool_choice: ``auto``, ``none``, ``required``, or the name of the one to call.
        template: what else the chat template is given.
    """

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    logprobs: int | None
    bias: Mapping[int, float] | None
    json: bool | None
    schema: Mapping[str, Any] | None
    regex: str | None
    grammar: str | None
    tools: Sequence[Mapping[str, Any]] | None
    tool_choice: str | None
    template: Mapping[str, Any] | None


class _Item(msgspec.Struct, frozen=True):
    tokens: int = 0
    truncated: bool = False
    error: ErrorBody | None = None
    text: str = ""
    finish: Literal["stop", "length", "tool_calls"] | None = None
    prompt_tokens: int = 0
    new_tokens: int = 0
    cached_tokens: int = 0
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []
    logprobs: list[TokenLogprob] | None = None


class _Body(msgspec.Struct, frozen=True):
    items: list[_Item]


_decoder = msgspec.msgpack.Decoder(_Body)
_FIELDS = Generation.__struct_fields__


def asked(model: str, options: GenerateOptions) -> Asked[Generation]:
    """Raises `InvalidRequest` for a turn that no header can carry, `TypeError` for no option."""
    given: dict[str, Any] = dict(options)
    headers = headers_of(given)
    if unknown := given.keys() - GenerateOptions.__annotations__:
        raise TypeError(f"generate has no option {', '.join(sorted(unknown))}")
    fields = {"params": {name: value for name, value in given.items() if value is not None}}
    return Asked("generate", model, fields, headers, _decoder.decode, _read)


def _read(body: _Item) -> Generation:
    if body.finish is None:
        raise ProtocolError("an item of the answer has neither an end nor an error")
    return Generation(**{name: getattr(body, name) for name in _FIELDS})


def prompts_of(given: Prompts) -> list[Item]:
    """The items of a call, checked. Raises `InvalidItem`."""
    if is_one(given):
        return [prompt_of(given, "items[0]")]
    return [prompt_of(one, f"items[{position}]") for position, one in enumerate(given)]  # type: ignore[arg-type]


def is_one(given: Prompts) -> bool:
    """Whether this is a text or a conversation that stands by itself, and no list of them."""
    if isinstance(given, str | bytes | Mapping):
        return True
    return bool(given) and isinstance(given[0], Mapping) and "role" in given[0]  # type: ignore[index]


def prompt_of(given: Prompt, param: str) -> Item:
    """A text, token ids, or a conversation. Raises `InvalidItem`."""
    if isinstance(given, Mapping):
        return conversation(given.get("messages"), param)
    if is_one(given) and not isinstance(given, str | bytes):
        return conversation(given, param)
    return item_of(given, param)


class Generated(Told, frozen=True, eq=False, kw_only=True):
    """What `generate` of n items gave.

    Attributes:
        texts: one entry for each item that has an answer.
    """

    texts: list[Generation]


class GenerateCollector(Collector[Generation, Generated]):
    """One text an item."""

    def __init__(self, model: str, count: int) -> None:
        super().__init__(model, count)
        self._found: dict[int, Generation] = {}

    def place(self, position: int, value: Generation) -> None:
        self._found[position] = value

    def result(self) -> Generated:
        told = msgspec.structs.asdict(self.told())
        return Generated(**told, texts=[self._found[n] for n in sorted(self._found)])

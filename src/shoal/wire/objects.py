"""What is told of an item: the MessagePack maps in `Reply.objects`, and what the API says."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

#: Inside a struct that has a field of the name, `bytes` is that field.
Octets = bytes


class Entity(msgspec.Struct, frozen=True):
    """A part of the item's text; `start` and `end` count its characters (code points)."""

    text: str
    label: str
    score: float
    start: int
    end: int


class Label(msgspec.Struct, frozen=True):
    """What an item is, and how surely."""

    label: str
    score: float


class Segment(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was said from one second to another, and how surely the window that it is in was read.

    Attributes:
        avg_logprob: mean logarithm of the likelihoods of its tokens.
        compression_ratio: of its text: what repeats itself is easily compressed.
        no_speech_prob: that nothing was said.
        temperature: at which tokens were chosen.
    """

    start_s: float
    end_s: float
    text: str
    avg_logprob: float | None = None
    compression_ratio: float | None = None
    no_speech_prob: float | None = None
    temperature: float | None = None


class Token(msgspec.Struct, frozen=True):
    """A token of a text; `start` and `stop` count UTF-8 bytes of it, None of a special token."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class Tokenized(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text's tokens; or the text of token ids."""

    tokens: list[Token] | None = None
    text: str | None = None


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where in the item's text a field was read; `error`: why what stands there is no value of it."""

    field: str
    text: str
    score: float
    start: int
    end: int
    error: str | None = None


class Line(msgspec.Struct, frozen=True):
    """Text that was read in a picture.

    `box`: x and y of its corners in pixels of the picture, clockwise from where the text begins above.
    """

    text: str
    score: float
    box: list[list[int]]


class Page(msgspec.Struct, frozen=True):
    """What was read on one page, in the order of reading; sizes in pixels."""

    text: str
    lines: list[Line]
    width: int
    height: int


class Extraction(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the model's kind gives: entities, labels by falling score, a transcript, or what is read.

    `lines`, `width` and `height` are of an image; of a file with pages there are `pages`.
    """

    entities: list[Entity] | None = None
    labels: list[Label] | None = None
    text: str | None = None
    language: str | None = None
    segments: list[Segment] | None = None
    fields: dict[str, Any] | None = None
    evidence: list[Evidence] | None = None
    duration_s: float | None = None
    lines: list[Line] | None = None
    width: int | None = None
    height: int | None = None
    pages: list[Page] | None = None


class Alternative(msgspec.Struct, frozen=True):
    """A token that could have stood there. `text`: empty where it is a part of a character."""

    text: str
    bytes: Octets
    logprob: float


class TokenLogprob(msgspec.Struct, frozen=True):
    """A token of a generated text; `top`: the likeliest in its place, the likeliest first."""

    text: str
    bytes: Octets
    logprob: float
    top: list[Alternative] = []


class ToolCall(msgspec.Struct, frozen=True):
    """What the model wants called; `arguments`: JSON, as it wrote them."""

    name: str
    arguments: str


class Generation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text that was generated.

    Attributes:
        text: without what is told beside it.
        finish: ``tool_calls``: it ended with some.
        prompt_tokens, new_tokens: as the model counts; of the former `cached_tokens` cost nothing.
        reasoning: what the model thought before it answered, where its template tells that apart.
        logprobs: of the tokens of all that was generated; None unless asked for.
    """

    text: str
    finish: Literal["stop", "length", "tool_calls"]
    prompt_tokens: int
    new_tokens: int
    cached_tokens: int = 0
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []
    logprobs: list[TokenLogprob] | None = None

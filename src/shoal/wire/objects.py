"""What is told of an item: the MessagePack maps in `Reply.objects`, and what the API says."""

from __future__ import annotations

from typing import Any

import msgspec


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


class Extraction(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the model's kind gives: entities, labels by falling score, or a transcript."""

    entities: list[Entity] | None = None
    labels: list[Label] | None = None
    text: str | None = None
    language: str | None = None
    segments: list[Segment] | None = None
    fields: dict[str, Any] | None = None
    evidence: list[Evidence] | None = None
    duration_s: float | None = None

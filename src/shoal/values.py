"""Small values that every layer shares, and what text says one of them: no I/O."""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

#: Traffic class. Interactive work and bulk work sit on streams of their own.
TrafficClass = Literal["work", "bulk"]

#: How the items of a unit are encoded: as they came in over HTTP.
Encoding = Literal["json", "msgpack"]

#: Element types a caller may ask vectors in.
VectorDType = Literal["float32", "float16", "int8", "uint8", "binary"]

#: Of what a generated text must be: any JSON object, JSON of a schema, a regular expression, Lark.
GrammarKind = Literal["json_object", "json_schema", "regex", "lark"]
#: The parameter of a native request that asks for each.
GRAMMAR_PARAMS: dict[GrammarKind, str] = {
    "json_object": "json",
    "json_schema": "schema",
    "regex": "regex",
    "lark": "grammar",
}

Task = Literal["encode", "score", "extract", "generate", "tokenize"]


class EncodeParams(msgspec.Struct, frozen=True, array_like=True, tag="encode"):
    """What a caller may ask of `encode`, the same on the native and the OpenAI route.

    Attributes:
        normalize: None: as the card says.
        prompt: the name of one of the card's prompts; None: its default one.
        instruction: what the texts are read for, in the caller's words, in place of a prompt.
    """

    outputs: tuple[str, ...] = ("dense",)
    dimensions: int | None = None
    dtype: VectorDType = "float32"
    normalize: bool | None = None
    truncate: bool = True
    prompt: str | None = None
    instruction: str | None = None


class ScoreParams(msgspec.Struct, frozen=True, array_like=True, tag="score"):
    """What a caller may ask of `score`; the items are the documents.

    Attributes:
        query: one item, in the unit's encoding; all documents are scored against it.
        raw: the model's logit, without the card's activation.
        truncate: cut documents that are too long; the query is kept.
        document_tokens: cut documents to so many, where a cross-encoder reads them.
        instruction: what is looked for, in the caller's words; None: as the card says.
    """

    query: bytes
    raw: bool = False
    truncate: bool = True
    document_tokens: int | None = None
    instruction: str | None = None


class Speech(msgspec.Struct, frozen=True, array_like=True):
    """What a caller may ask of a transcript.

    Attributes:
        language: that is spoken, by its code; None: as the model hears.
        task: translating is into English.
        prompt: what might have been said before, of which names and spelling are taken up.
        temperature: of the choice of each token; None: 0, and more of it where that goes wrong.
    """

    language: str | None = None
    task: Literal["transcribe", "translate"] = "transcribe"
    prompt: str | None = None
    temperature: float | None = None


class ExtractParams(msgspec.Struct, frozen=True, array_like=True, tag="extract"):
    """What a caller may ask of `extract`.

    Attributes:
        labels: what to look for, where the model takes any; else a choice of its own. None: all.
        threshold: least score of what is told; None: as the card says.
        multi_label: whether labels of a text exclude each other; None: as the card says.
        nested: whether entities may lie inside others, where the model finds spans.
        schema: a JSON schema of the fields to fill in, as text, in place of labels; empty: none.
        speech: of sound that is transcribed; None: as the model does by itself.
    """

    labels: tuple[str, ...] | None = None
    threshold: float | None = None
    multi_label: bool | None = None
    truncate: bool = True
    nested: bool = False
    schema: str = ""
    speech: Speech | None = None


class TokenizeParams(msgspec.Struct, frozen=True, array_like=True, tag="tokenize"):
    """What a caller may ask of `tokenize`, which makes tokens of texts, and texts of token ids.

    Attributes:
        special: put the model's special tokens around texts; tell those among ids.
        prompt: as `EncodeParams`.
    """

    special: bool = True
    prompt: str | None = None


class GenerateParams(msgspec.Struct, frozen=True, array_like=True, tag="generate"):
    """What a caller may ask of `generate`. None: as the card says, else as the field does.

    Attributes:
        chat: an item is a conversation, a map with ``messages``, and not a text.
        stream: pieces of the text are wanted as they come.
        max_tokens: most that are generated; None: as many as the model's length leaves.
        temperature: 0 is the likeliest token; top_k 0, top_p 1 and min_p 0 leave all of them.
        presence_penalty, frequency_penalty: taken off the logit of a token that was generated before,
            once, and for each time; ``repetition_penalty`` divides those of prompt and text.
        seed: the same one gives the same text; the gateway draws one where the caller names none.
        stop: texts that end it, and do not become part of it.
        logprobs: how many of the likeliest tokens are told beside each; None: nothing is told.
        bias: (token, what is added to its logit).
        grammar: (kind, text) of what the text must be.
        tools: of a conversation, what may be called: a JSON list in OpenAI's shape, as text; empty: none.
        tool_choice: ``auto``, ``none``, ``required``, or the name of the one to call.
        template: what else the chat template is given: a JSON map, as text; empty: nothing.
        apart: pieces of reasoning and of calls are wanted too, each apart from the text.
        read_bytes: what an item counts, where there are images in it, whose bytes say nothing of what is read;
            0: all of its bytes.
    """

    chat: bool = False
    stream: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float | None = None
    seed: int = 0
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    bias: tuple[tuple[int, float], ...] = ()
    grammar: tuple[GrammarKind, str] | None = None
    tools: str = ""
    tool_choice: str = "auto"
    template: str = ""
    apart: bool = False
    read_bytes: int = 0


Params = EncodeParams | ScoreParams | ExtractParams | TokenizeParams | GenerateParams


def task_of(params: Params) -> Task:
    """The task that these are the parameters of."""
    match params:
        case EncodeParams():
            return "encode"
        case ScoreParams():
            return "score"
        case ExtractParams():
            return "extract"
        case TokenizeParams():
            return "tokenize"
        case GenerateParams():
            return "generate"


#: Bytes of text a token, until a tokenizer has told: English WordPiece gives 4 to 5.
BYTES_PER_TOKEN = 4.0


class Features(msgspec.Struct, frozen=True, array_like=True):
    """What the cost of an item depends on; which of these count is decided by `core.cost.TERMS`.

    Attributes:
        tokens: exact once the worker has tokenized, else estimated from bytes.
        items: how many items this describes.
        tokens_squared: sum over items of tokens squared (attention).
        new_tokens: that may be generated at most, or were; 0: not told.
    """

    tokens: int
    items: int = 1
    tokens_squared: int = 0
    new_tokens: int = 0

    def __add__(self, other: Features) -> Features:
        return Features(
            self.tokens + other.tokens,
            self.items + other.items,
            self.tokens_squared + other.tokens_squared,
            self.new_tokens + other.new_tokens,
        )


def estimated_features(
    text_bytes: int, items: int, new_tokens: int = 0, *, longest: int
) -> Features:
    """A guess before anything is tokenized: items of equal length, each with two special tokens and
    of no more than `longest`, at which they are cut."""
    tokens = min(int(text_bytes / BYTES_PER_TOKEN) + 2 * items, longest * items)
    return Features(tokens, items, tokens * tokens // max(1, items), new_tokens)


def features_of(lengths: list[int], new_tokens: int = 0) -> Features:
    """Features of items with these token counts."""
    return Features(sum(lengths), len(lengths), sum(n * n for n in lengths), new_tokens)


def expected_new(items: int, most: int, each: float) -> float:
    """Tokens that so many texts become, where one becomes `each`: no more than `most` together; 0: of
    which nothing is told."""
    expected = items * each
    return min(most, expected) if most else expected


#: Of headers, flags and files alike. Python's own `float` and `int` take '1_0', ' 10 ', '１０' and
#: 'nan' too, which other readers of the same text take for something else or for nothing.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
#: Up to 18 digits: such a number fits in 64 bits.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def number(text: str) -> float | None:
    """The finite number that `text` writes in plain digits; None if it is none."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def whole_number(text: str) -> int | None:
    """The whole number that `text` writes in plain digits; None if it is none."""
    return int(text) if _WHOLE.fullmatch(text) else None

"""The shapes of answers, for the OpenAPI document; the answers themselves are written piecewise."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.gateway.models import ModelObject
from shoal.wire.objects import Extraction, Generation

_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_RESTORES: dict[str, Any] = {
    "dtype": {"type": "string"},
    "scale": {"type": "number"},
    "zero_point": {"type": "number"},
}
_TENSOR: dict[str, Any] = {
    "type": "object",
    "description": "In MessagePack.",
    "properties": {
        **_RESTORES,
        "shape": {"type": "array", "items": {"type": "integer"}},
        "data": {"type": "string", "format": "binary"},
    },
}
_QUANTISED: dict[str, Any] = {
    "type": "object",
    "description": "What was asked as int8, uint8 or binary: value = scale * (number - zero_point).",
    "properties": {"values": _NUMBERS, **_RESTORES},
}
VECTOR_SCHEMA: dict[str, Any] = {"anyOf": [_NUMBERS, _QUANTISED, _TENSOR]}
SPARSE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Weights of terms of the vocabulary; what is not named is 0.",
    "properties": {
        "indices": {"anyOf": [_NUMBERS, _TENSOR]},
        "values": {"anyOf": [_NUMBERS, _TENSOR]},
    },
}
MULTIVECTOR_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "array", "items": _NUMBERS}, _QUANTISED, _TENSOR]
}


class ErrorDetail(msgspec.Struct, frozen=True):
    """What went wrong, and whether the same call may work later."""

    code: str
    message: str
    retryable: bool
    param: str | None


class FailedItem(msgspec.Struct, frozen=True):
    """An item that has no answer."""

    error: ErrorDetail


class ErrorAnswer(msgspec.Struct, frozen=True):
    """Body of every error on the native routes; where all items failed, each one's beside the first's."""

    error: ErrorDetail
    items: list[FailedItem] = []


class OpenAIErrorDetail(msgspec.Struct, frozen=True):
    """An error as OpenAI's clients read it."""

    message: str
    type: str
    param: str | None
    code: str


class OpenAIErrorAnswer(msgspec.Struct, frozen=True):
    """Body of every error on the OpenAI routes."""

    error: OpenAIErrorDetail


class EncodedItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item's vectors, by output, or its error."""

    dense: Annotated[Any, Meta(extra_json_schema=VECTOR_SCHEMA)] = None
    sparse: Annotated[Any, Meta(extra_json_schema=SPARSE_SCHEMA)] = None
    multivector: Annotated[Any, Meta(extra_json_schema=MULTIVECTOR_SCHEMA)] = None
    tokens: int = 0
    truncated: bool = False
    error: ErrorDetail | None = None


class Usage(msgspec.Struct, frozen=True):
    """Tokens that were read."""

    tokens: int


class EncodeAnswer(msgspec.Struct, frozen=True):
    """One entry an item, in the order of the request."""

    model: str
    items: list[EncodedItem]
    usage: Usage


class ScoredItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """How well one document answers the query, or its error."""

    score: float | None = None
    tokens: int = 0
    truncated: bool = False
    error: ErrorDetail | None = None


class ScoreAnswer(msgspec.Struct, frozen=True):
    """One entry a document, in the order of the request; `tokens` are those of both texts."""

    model: str
    items: list[ScoredItem]
    usage: Usage


class ExtractedItem(Extraction, frozen=True, omit_defaults=True):
    """What was extracted of one item, or its error."""

    tokens: int = 0
    truncated: bool = False
    error: ErrorDetail | None = None


class ExtractAnswer(msgspec.Struct, frozen=True):
    """One entry an item, in the order of the request."""

    model: str
    items: list[ExtractedItem]
    usage: Usage


class GeneratedItem(Generation, frozen=True, kw_only=True, omit_defaults=True):
    """What was generated of one item, or its error; in a stream as it comes, with `item`, its place."""

    tokens: int = 0
    truncated: bool = False
    error: ErrorDetail | None = None


class GenerateUsage(Usage, frozen=True):
    """Tokens that were read, of which some were computed before, and those that were generated."""

    new_tokens: int
    cached_tokens: int


class GenerateAnswer(msgspec.Struct, frozen=True):
    """One entry an item, in the order of the request."""

    model: str
    items: list[GeneratedItem]
    usage: GenerateUsage


class Embedding(msgspec.Struct, frozen=True, omit_defaults=True):
    """`embedding` is text with `encoding_format: base64`."""

    index: int
    embedding: list[float] | str
    object: str = "embedding"
    truncated: bool = False


class EmbeddingsUsage(msgspec.Struct, frozen=True):
    """Tokens that were embedded."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(msgspec.Struct, frozen=True):
    """OpenAI's list of embeddings; `truncated` is there only where an input was cut."""

    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage
    object: str = "list"


class ModelList(msgspec.Struct, frozen=True):
    """OpenAI's list of models."""

    data: list[ModelObject]
    object: str = "list"

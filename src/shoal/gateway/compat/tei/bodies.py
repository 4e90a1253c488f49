"""What text-embeddings-inference's routes take and answer with, as structs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.errors import ErrorInfo, InvalidRequest
from shoal.gateway.compat.inputs import INPUT_SCHEMA

Inputs = Annotated[
    msgspec.Raw,
    Meta(
        description="A text, texts, token ids, or lists of token ids.",
        extra_json_schema=INPUT_SCHEMA,
    ),
]
Truncate = Annotated[
    bool | None, Meta(description="Cut texts that are too long, the default; false: they fail.")
]


class EmbedBody(msgspec.Struct, frozen=True):
    """Body of `/embed`, `/embed_all` and `/embed_sparse`; other fields are ignored."""

    inputs: Inputs
    truncate: Truncate = None
    normalize: Annotated[bool | None, Meta(description="Scale to length 1, the default.")] = None
    prompt_name: Annotated[str | None, Meta(description="One of the card's prompts.")] = None
    dimensions: Annotated[int | None, Meta(description="Cut vectors to this width.")] = None
    truncation_direction: str | None = None


class SimilarityInputs(msgspec.Struct, frozen=True):
    """A text, and those it is compared with."""

    source_sentence: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "string"})]
    sentences: Annotated[list[msgspec.Raw], Meta(extra_json_schema={"items": {"type": "string"}})]


class SimilarityParameters(msgspec.Struct, frozen=True):
    """Options of `/similarity`; other fields are ignored."""

    truncate: Truncate = None
    prompt_name: str | None = None
    truncation_direction: str | None = None


class SimilarityBody(msgspec.Struct, frozen=True):
    """Body of `/similarity`."""

    inputs: SimilarityInputs
    parameters: SimilarityParameters | None = None


class RankBody(msgspec.Struct, frozen=True):
    """Body of `/rerank`; other fields are ignored."""

    query: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "string"})]
    texts: Annotated[list[msgspec.Raw], Meta(extra_json_schema={"items": {"type": "string"}})]
    truncate: Truncate = None
    raw_scores: Annotated[bool, Meta(description="Logits.")] = False
    return_text: Annotated[bool, Meta(description="Answer with the texts too.")] = False
    truncation_direction: str | None = None


class PredictParameters(msgspec.Struct, frozen=True):
    """Options of Hugging Face's inference client; other fields are ignored."""

    candidate_labels: list[str] | None = None
    multi_label: bool | None = None
    hypothesis_template: str | None = None
    top_k: int | None = None


class PredictBody(msgspec.Struct, frozen=True):
    """Body of `/predict`; other fields are ignored.

    Attributes:
        parameters: given, even empty: what asks is Hugging Face's client, and is answered in its
            shape.
    """

    inputs: Annotated[
        msgspec.Raw,
        Meta(
            description="A text, or texts in lists of one each.",
            extra_json_schema={
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
                ]
            },
        ),
    ]
    truncate: Truncate = None
    raw_scores: bool = False
    truncation_direction: str | None = None
    parameters: PredictParameters | None = None


class TokenizeBody(msgspec.Struct, frozen=True):
    """Body of `/tokenize`; other fields are ignored."""

    inputs: Annotated[
        msgspec.Raw,
        Meta(
            description="A text, or texts.",
            extra_json_schema={"type": ["string", "array"], "items": {"type": "string"}},
        ),
    ]
    add_special_tokens: bool = True
    prompt_name: Annotated[str | None, Meta(description="One of the card's prompts.")] = None


class DecodeBody(msgspec.Struct, frozen=True):
    """Body of `/decode`; other fields are ignored."""

    ids: Annotated[
        msgspec.Raw,
        Meta(
            description="Token ids, or lists of them.",
            extra_json_schema={"type": "array"},
        ),
    ]
    skip_special_tokens: bool = True


class AnyBody(msgspec.Struct, frozen=True):
    """Body of `POST /`: which of the others it is shows in its fields, empty where not given."""

    inputs: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    query: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class Rank(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text's score; `index` is its place in the request."""

    index: int
    score: float
    text: Annotated[
        msgspec.Raw | None,
        Meta(extra_json_schema={"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ] = None


class Term(msgspec.Struct, frozen=True):
    """One term of a sparse vector."""

    index: int
    value: float


class Prediction(msgspec.Struct, frozen=True):
    """What a text is, and how surely."""

    score: float
    label: str


class Info(msgspec.Struct, frozen=True):
    """What `/info` tells of a model; limits that there are none of here are left out."""

    model_id: str
    model_sha: str | None
    model_dtype: str
    model_type: dict[str, Any]
    max_input_length: int
    max_batch_tokens: int
    max_client_batch_size: int
    version: str
    auto_truncate: bool = True


class TeiErrorAnswer(msgspec.Struct, frozen=True):
    """An error as text-embeddings-inference tells it."""

    error: str
    error_type: str


#: Of the five there are, by status; the others are `Backend`.
_ERROR_TYPES = {429: "Overloaded", 503: "Unhealthy"}


def tei(error: ErrorInfo) -> dict[str, Any]:
    """``{"error", "error_type"}``."""
    fallback = "Validation" if error.status < 500 else "Backend"
    type_ = _ERROR_TYPES.get(error.status, fallback)
    return msgspec.structs.asdict(TeiErrorAnswer(error.message, type_))


def check_direction(direction: str | None) -> None:
    """Raises `InvalidRequest` for a cut that is not made."""
    if direction is not None and direction.lower() != "right":
        where = "truncation_direction"
        raise InvalidRequest(f"{where} '{direction[:20]}': texts are cut at their end", param=where)

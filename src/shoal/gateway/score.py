"""`POST /v1/score/{model}`: how well documents answer a query; the native route.

Decides the shape of its request and its answer, and how long a query may be. It must not know
units or the queue.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.errors import InvalidRequest, PayloadTooLarge
from shoal.gateway.asking import Question
from shoal.gateway.body import BodyDecoder, ItemLimits, checked_item, checked_items
from shoal.gateway.instructions import Instruction, checked_instruction
from shoal.gateway.native import ITEM_SCHEMA, NativeRoute
from shoal.gateway.render import item_shape
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.service import Gateway
from shoal.values import Encoding, ScoreParams
from shoal.wire.codec import Buffer

#: The query travels inside every unit; 64 KiB are some 16,000 tokens, more than rerankers read.
QUERY_MOST_BYTES = 64 * 1024


class ScoreOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `params` of a native score request."""

    raw: Annotated[
        bool, Meta(description="The model's logit, without the activation of its card.")
    ] = False
    truncate: Annotated[
        bool, Meta(description="Cut documents that are too long; false: such a one fails.")
    ] = True
    document_tokens: Annotated[
        int | None,
        Meta(description="Cut documents to so many tokens, of a model that reads both as one."),
    ] = None
    instruction: Instruction = None


class ScoreBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a native score request."""

    query: Annotated[
        msgspec.Raw,
        Meta(
            description="What all items are scored against; kept where documents are cut.",
            extra_json_schema=ITEM_SCHEMA,
        ),
    ]
    items: Annotated[
        list[msgspec.Raw],
        Meta(
            description="The documents; one score each, in order.",
            extra_json_schema={"items": ITEM_SCHEMA},
        ),
    ]
    params: ScoreOptions = ScoreOptions()


_decoder = BodyDecoder(ScoreBody)


def score_route(gateway: Gateway) -> NativeRoute:
    """The route, bound to a gateway."""
    return NativeRoute(gateway, "score", _read, lambda _: _shape)


def _read(body: Buffer, encoding: Encoding, card: Card, limits: ItemLimits) -> Question:
    decoded: ScoreBody = _decoder.decode(body, encoding)
    query = checked_query(decoded.query, encoding, limits)
    options = decoded.params
    most = document_tokens(options.document_tokens, card, "params.document_tokens")
    if most is not None and not options.truncate:
        where = "params.document_tokens"
        raise InvalidRequest(f"{where} cuts documents, and truncate is false", param=where)
    where = "params.instruction"
    instruction = checked_instruction(options.instruction, card, "score", where)
    params = ScoreParams(query, options.raw, options.truncate, most, instruction)
    return Question(card, params, encoding, checked_items(decoded.items, encoding, limits, "items"))


def checked_query(raw: msgspec.Raw, encoding: Encoding, limits: ItemLimits) -> bytes:
    """The query's bytes. Raises `InvalidItem`, `PayloadTooLarge`."""
    query = bytes(checked_item(raw, encoding, limits, "query"))
    if len(query) > QUERY_MOST_BYTES:
        raise PayloadTooLarge(
            f"query has {len(query)} bytes; it may have {QUERY_MOST_BYTES}", param="query"
        )
    return query


def document_tokens(asked: int | None, card: Card, where: str) -> int | None:
    """To how many tokens documents are cut; None where the model's own limit is below that.

    Raises:
        InvalidRequest: it is below 1, or the model cannot cut documents by themselves.
    """
    if asked is None or asked >= card.max_tokens:
        return None
    if asked < 1:
        raise InvalidRequest(f"{where} is {asked}: at least 1 is needed", param=where)
    task = card.tasks.score
    if task is None or task.head != "cross-encoder":
        raise InvalidRequest(
            f"{where} is {asked}: '{card.name}' cuts documents at {card.max_tokens} tokens alone",
            param=where,
        )
    return asked


def score_of(item: ItemAnswer) -> float:
    """The score of an item that did not fail."""
    return float(item.vectors["score"])  # type: ignore[arg-type]  # a number an item


def _shape(item: ItemAnswer, msgpack: bool) -> dict[str, Any]:
    """JSON has the shortest digits that are the float32."""
    score = item.vectors.get("score")
    return item_shape(item, {"score": float(score) if msgpack and score is not None else score})  # type: ignore[arg-type]

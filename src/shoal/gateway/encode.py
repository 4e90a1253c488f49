"""`POST /v1/encode/{model}`: the native route, in JSON and MessagePack.

Decides the shape of its request and its answer. It must not know units or the queue.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.gateway.asking import Question
from shoal.gateway.body import BodyDecoder, ItemLimits, checked_items
from shoal.gateway.native import ITEM_SCHEMA, NativeRoute, Shape
from shoal.gateway.options import EncodeOptions, checked_params
from shoal.gateway.render import vectors_shape
from shoal.gateway.service import Gateway
from shoal.values import EncodeParams, Encoding
from shoal.wire.codec import Buffer


class EncodeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a native encode request."""

    items: Annotated[
        list[msgspec.Raw],
        Meta(
            description="Texts, lists of token ids, images or audio; one answer each, in order.",
            extra_json_schema={"items": ITEM_SCHEMA},
        ),
    ]
    params: EncodeOptions = EncodeOptions()


_decoder = BodyDecoder(EncodeBody)


def encode_route(gateway: Gateway) -> NativeRoute:
    """The route, bound to a gateway."""
    return NativeRoute(gateway, "encode", _read, _shape)


def _read(body: Buffer, encoding: Encoding, card: Card, limits: ItemLimits) -> Question:
    decoded: EncodeBody = _decoder.decode(body, encoding)
    params = checked_params(decoded.params, card)
    return Question(card, params, encoding, checked_items(decoded.items, encoding, limits, "items"))


def _shape(question: Question) -> Shape:
    assert isinstance(question.params, EncodeParams)
    return vectors_shape(question.params.dtype)

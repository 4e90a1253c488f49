"""`POST /v1/encode/{model}`: the native route, in JSON and MessagePack.

Decides the shape of its request and its answer. It must not know units or the queue.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.gateway.asking import Question, ask, card_for, item_limits, read_body
from shoal.gateway.body import BodyDecoder, ItemLimits, checked_items
from shoal.gateway.http import Request, Response
from shoal.gateway.native import ITEM_SCHEMA, body_encoding, native_response
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


class EncodeRoute:
    """The route's handler, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request, model: str) -> Response:
        """Embed the body's items with `model`."""
        gateway = self._gateway
        card = card_for(gateway, model, "encode")
        encoding = body_encoding(request)
        body = await read_body(gateway, request)
        params, items = _read(body, encoding, card, item_limits(gateway, card))
        del body  # only the items view it now
        answers = await ask(gateway, request, Question(card, params, encoding, items))
        return await native_response(request, model, answers, vectors_shape(params.dtype))


def _read(
    body: Buffer, encoding: Encoding, card: Card, limits: ItemLimits
) -> tuple[EncodeParams, list[Buffer]]:
    decoded: EncodeBody = _decoder.decode(body, encoding)
    params = checked_params(decoded.params, card)
    return params, checked_items(decoded.items, encoding, limits, "items")

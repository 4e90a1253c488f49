"""`POST /v1/encode/{model}`: the native route, in JSON and MessagePack.

Decides the shape of its request and its answer. It must not know units or the queue.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.errors import UnsupportedMediaType
from shoal.gateway.body import BodyDecoder, ItemLimits, checked_items
from shoal.gateway.embed import Answers, embed, item_limits, read_body
from shoal.gateway.envelope import error_response
from shoal.gateway.headers import JSON, MSGPACK, MSGPACK_TYPES, media_type
from shoal.gateway.http import Request, Response
from shoal.gateway.options import EncodeOptions, checked_params
from shoal.gateway.render import (
    Vector,
    json_list,
    located,
    msgpack_list,
    native_item,
    tensor,
)
from shoal.gateway.service import Gateway
from shoal.values import EncodeParams, Encoding
from shoal.wire.codec import Buffer

ITEM_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "title": "token ids"},
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        {
            "type": "object",
            "properties": {"tokens": {"type": "array", "items": {"type": "integer"}}},
            "required": ["tokens"],
        },
        {
            "type": "object",
            "description": "An image, base64 in JSON; in MessagePack bytes, alone or in a map.",
            "properties": {"image": {"type": "string", "format": "byte"}},
            "required": ["image"],
        },
        {
            "type": "object",
            "properties": {"image_url": {"type": "string", "pattern": "^data:"}},
            "required": ["image_url"],
        },
        {
            "type": "object",
            "properties": {"audio": {"type": "string", "format": "byte"}},
            "required": ["audio"],
        },
    ]
}


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
        card = gateway.catalog.card(model)
        encoding = body_encoding(request)
        body = await read_body(gateway, request)
        params, items = _read(body, encoding, card, item_limits(gateway, card))
        del body  # only the items view it now
        answers = await embed(gateway, request, card, params, encoding, items)
        failure = answers.first_failure()
        if failure is not None and answers.all_failed:
            error = located(failure[1], f"items[{failure[0]}]")
            return error_response(error, msgpack=request.wants_msgpack)
        if request.wants_msgpack:
            return await _in_msgpack(model, answers)
        return await _in_json(model, answers)


def _read(
    body: Buffer, encoding: Encoding, card: Card, limits: ItemLimits
) -> tuple[EncodeParams, list[Buffer]]:
    decoded: EncodeBody = _decoder.decode(body, encoding)
    params = checked_params(decoded.params, card)
    return params, checked_items(decoded.items, encoding, limits, "items")


def body_encoding(request: Request) -> Encoding:
    """The format that `Content-Type` names; JSON without one. Raises `UnsupportedMediaType`."""
    type_ = media_type(request.headers.get(b"content-type", JSON))
    if type_ == JSON:
        return "json"
    if type_ in MSGPACK_TYPES:
        return "msgpack"
    raise UnsupportedMediaType(
        f"Content-Type '{type_.decode('latin-1')}' is not taken: "
        f"send application/json or application/msgpack",
        param="Content-Type",
    )


async def _in_json(model: str, answers: Answers) -> Response:
    parts = ([native_item(item, _as_it_is) for item in unit] for unit in answers.units())
    usage = {"usage": {"tokens": answers.tokens}}
    return Response(await json_list(parts, {"model": model}, "items", usage))


def _as_it_is(row: Vector) -> Vector:
    return row


async def _in_msgpack(model: str, answers: Answers) -> Response:
    parts = ([native_item(item, tensor) for item in unit] for unit in answers.units())
    fields = {"model": model, "usage": {"tokens": answers.tokens}}
    return Response(await msgpack_list(parts, fields, "items", answers.items), content_type=MSGPACK)

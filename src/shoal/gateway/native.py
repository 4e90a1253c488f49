"""What the native routes share: how a request is answered, its formats, the shape of its answer.

Decides JSON or MessagePack, and when a request fails with its items. It must not know tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from shoal.catalog.card import Card
from shoal.errors import ErrorInfo, UnsupportedMediaType
from shoal.gateway.asking import Answers, Question, ask, card_for, item_limits, read_body
from shoal.gateway.body import ItemLimits
from shoal.gateway.envelope import error_response, native
from shoal.gateway.headers import JSON, MSGPACK, MSGPACK_TYPES, media_type
from shoal.gateway.render import json_list, located, msgpack_list
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway
from shoal.values import Encoding, Task
from shoal.wire.codec import Buffer

#: One entry of an answer; the second argument tells whether it goes out as MessagePack.
Shape = Callable[[ItemAnswer, bool], dict[str, Any]]

#: A body to a question, or an error that says what is wrong with it.
Read = Callable[[Buffer, Encoding, Card, ItemLimits], Question]

#: Items as the native routes take them; the worker reads them (`tasks.encode.read_item`).
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


class NativeRoute:
    """The handler of one task's route, bound to a gateway.

    Args:
        read: what is asked; the items may view the body, and nothing else.
        shape: of the entries of its answer.
    """

    def __init__(
        self, gateway: Gateway, task: Task, read: Read, shape: Callable[[Question], Shape]
    ) -> None:
        self._gateway, self._task, self._read, self._shape = gateway, task, read, shape

    async def post(self, request: Request, model: str) -> Response:
        """Have `model` do the task with the body's items."""
        gateway = self._gateway
        card = card_for(gateway, model, self._task)
        encoding = body_encoding(request)
        body = await read_body(gateway, request)
        question = self._read(body, encoding, card, item_limits(gateway, card))
        del body  # only the items view it now
        shape = self._shape(question)
        answers = await ask(gateway, request, question)
        return await native_response(request, model, answers, shape)


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


async def native_response(
    request: Request,
    model: str,
    answers: Answers,
    shape: Shape,
    usage: Callable[[Answers], dict[str, int]] = lambda answers: {"tokens": answers.tokens},
) -> Response:
    """One entry an item; beside the error of the first one if all failed, and none where no item is
    at fault."""
    msgpack = request.wants_msgpack
    failure = answers.first_failure()
    if failure is not None and answers.all_failed:
        position, error = failure
        if position is None:
            return error_response(located(error, None), msgpack=msgpack)
        entries = [shape(item, msgpack) for item in await answers.every()]
        error = located(error, f"items[{position}]")
        return error_response(error, partial(_beside, entries), msgpack=msgpack)
    parts = ([shape(item, msgpack) for item in unit] for unit in answers.units())
    after = {"usage": usage(answers)}
    if msgpack:
        fields = {"model": model, **after}
        pieces = await msgpack_list(parts, fields, "items", answers.items)
        return Response(pieces, content_type=MSGPACK)
    return Response(await json_list(parts, {"model": model}, "items", after))


def _beside(entries: list[dict[str, Any]], error: ErrorInfo) -> dict[str, Any]:
    return {**native(error), "items": entries}

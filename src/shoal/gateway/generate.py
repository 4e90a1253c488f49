"""`POST /v1/generate/{model}`: texts and conversations to more text; the native route.

Decides the shape of its request and its answer, whole and as a stream. It must not know units or the
queue.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.errors import ErrorInfo, InvalidItem
from shoal.gateway.asking import Answers, Question, ask, card_for, item_limits, read_body
from shoal.gateway.body import KINDS, MAP, BodyDecoder, ItemLimits, checked_items
from shoal.gateway.counts import Counts, counts_of
from shoal.gateway.envelope import native
from shoal.gateway.feed import Growth
from shoal.gateway.native import ITEM_SCHEMA, body_encoding, native_response
from shoal.gateway.render import item_shape
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.request import Request
from shoal.gateway.response import EventStream, Response
from shoal.gateway.sampling import GenerateOptions, drawn_seeds, generate_params
from shoal.gateway.service import Gateway
from shoal.gateway.streaming import event, event_stream
from shoal.values import Encoding
from shoal.wire.codec import Buffer, decode
from shoal.wire.objects import Generation, TokenLogprob

CONVERSATION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A conversation, in OpenAI's shape.",
    "properties": {"messages": {"type": "array", "items": {"type": "object"}, "minItems": 1}},
    "required": ["messages"],
}


class GenerateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a native generate request."""

    items: Annotated[
        list[msgspec.Raw],
        Meta(
            description="Texts, or conversations; one answer each, in order.",
            extra_json_schema={
                "items": {"anyOf": [*ITEM_SCHEMA["anyOf"][:4], CONVERSATION_SCHEMA]}
            },
        ),
    ]
    params: GenerateOptions = GenerateOptions()
    stream: Annotated[bool, Meta(description="Server-sent events, as the texts are generated.")] = (
        False
    )


_decoder = BodyDecoder(GenerateBody)
_maps: dict[Encoding, Any] = {
    "json": msgspec.json.Decoder(dict[str, msgspec.Raw]),
    "msgpack": msgspec.msgpack.Decoder(dict[str, msgspec.Raw]),
}


class GenerateRoute:
    """The route's handler, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request, model: str) -> Response | EventStream:
        """Have `model` go on with the body's items."""
        gateway = self._gateway
        card = card_for(gateway, model, "generate")
        encoding = body_encoding(request)
        body = await read_body(gateway, request, gateway.settings.generate_timeout_s)
        decoded: GenerateBody = _decoder.decode(body, encoding)
        question = _question(decoded, encoding, card, item_limits(gateway, card))
        streamed = decoded.stream
        del body, decoded  # only the items view it now
        if streamed:
            return await event_stream(gateway, request, question, _Events(model))
        answers = await ask(gateway, request, question)
        return await native_response(request, model, answers, _shape, usage_of)


def _question(body: GenerateBody, encoding: Encoding, card: Card, limits: ItemLimits) -> Question:
    items = checked_items(body.items, encoding, limits, "items")
    chat = _are_conversations(items, encoding)
    params = generate_params(body.params, "params.{}".format, chat=chat, stream=body.stream)
    seed = body.params.seed
    seeds = drawn_seeds(len(items)) if seed is None else (seed,) * len(items)
    return Question(card, params, encoding, items, seeds)


def _are_conversations(items: list[Buffer], encoding: Encoding) -> bool:
    """Whether they are; raises `InvalidItem` where some are and some are not."""
    found = [_is_conversation(item, encoding, n) for n, item in enumerate(items)]
    if found[0] in found and (not found[0]) in found:
        where = f"items[{found.index(not found[0])}]"
        kinds = ("a text", "a conversation")
        raise InvalidItem(
            f"{where} is {kinds[not found[0]]} and items[0] is {kinds[found[0]]}: ask for them apart",
            param=where,
        )
    return found[0]


def _is_conversation(item: Buffer, encoding: Encoding, position: int) -> bool:
    if KINDS[encoding][item[0]] is not MAP:
        return False
    try:
        return "messages" in _maps[encoding].decode(item)
    except (msgspec.DecodeError, RecursionError):
        where = f"items[{position}]"
        raise InvalidItem(f"{where} is no map with names", param=where) from None


def usage_of(answers: Answers) -> dict[str, int]:
    """Tokens of all items that did not fail."""
    counts = [counts_of(i) for unit in answers.units() for i in unit if i.error is None]
    return _usage(counts)


def _usage(counts: list[Counts]) -> dict[str, int]:
    return {
        "tokens": sum(count.prompt_tokens for count in counts),
        "new_tokens": sum(count.new_tokens for count in counts),
        "cached_tokens": sum(count.cached_tokens for count in counts),
    }


def _shape(item: ItemAnswer, msgpack: bool) -> dict[str, Any]:
    if item.error is not None:
        return item_shape(item, {})
    whole: dict[str, Any] = decode(_maps["msgpack"], item.told, "what a worker generated")
    if not msgpack:
        whole = {name: msgspec.msgpack.decode(raw) for name, raw in whole.items()}
        if (told := whole.get("logprobs")) is not None:
            whole["logprobs"] = [_in_json(token) for token in told]
    return item_shape(item, whole)


def _in_json(token: dict[str, Any]) -> dict[str, Any]:
    """A token whose bytes are numbers."""
    shown = {**token, "bytes": list(token["bytes"])}
    if "top" in token:
        shown["top"] = [{**other, "bytes": list(other["bytes"])} for other in token["top"]]
    return shown


class _Events:
    """``{"item", "text"}`` each time, at an item's end with the rest of it; ``{"usage"}`` at last."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._counts: list[Counts] = []

    def begin(self) -> bytes:
        return event({"model": self._model})

    def grown(self, growth: Growth) -> bytes:
        shape: dict[str, Any] = {"item": growth.item}
        if growth.answer is not None and growth.error is not None:
            return event(shape | item_shape(growth.answer, {}))
        shape["text"] = growth.text
        if growth.told:
            shape["logprobs"] = [_in_json(_builtins(token)) for token in growth.told]
        if growth.answer is not None and growth.whole is not None:
            self._counts.append(counts_of(growth.answer))
            rest = _builtins(growth.whole)
            del rest["text"]
            rest.pop("logprobs", None)
            shape |= item_shape(growth.answer, rest)
        return event(shape)

    def end(self) -> bytes:
        return event({"usage": _usage(self._counts)})

    def failed(self, error: ErrorInfo) -> bytes:
        return event(native(error), "error")


def _builtins(value: TokenLogprob | Generation) -> dict[str, Any]:
    """As a map; bytes stay what they are."""
    found: dict[str, Any] = msgspec.to_builtins(value, builtin_types=(bytes,))
    return found

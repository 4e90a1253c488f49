"""`/predict`: what texts, images and sound are, or what is in them.

Two callers are answered here. text-embeddings-inference's give texts alone and get lists of labels.
Hugging Face's inference client gives `parameters` too, or a file as the whole body, and gets the
shape of its task: labels, entities or a transcript.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.catalog.card import Card
from shoal.errors import InvalidRequest, UnsupportedMediaType
from shoal.gateway.asking import Question, ask, card_for, item_limits
from shoal.gateway.body import KINDS, LIST, TEXT, BodyDecoder, checked_items
from shoal.gateway.compat.media import media_item
from shoal.gateway.compat.tei.bodies import PredictBody, PredictParameters, check_direction
from shoal.gateway.compat.tei.vectors import failed
from shoal.gateway.extract import ExtractOptions, extract_params, told
from shoal.gateway.headers import JSON, media_type
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway
from shoal.wire.codec import Buffer

_decode = BodyDecoder(PredictBody)
_pairs = msgspec.json.Decoder(list[msgspec.Raw])
_NO_OPTIONS = PredictParameters()


async def predict(gateway: Gateway, request: Request, model: str | None, body: Buffer) -> Response:
    """Labels of each text; of a single one they stand alone."""
    card = card_for(gateway, model, "extract")
    if is_file(request, body):
        return await _of_file(gateway, request, card, body)
    asked: PredictBody = _decode.decode(body, "json")
    del body
    check_direction(asked.truncation_direction)
    if asked.raw_scores:
        raise InvalidRequest("raw_scores: labels come with probabilities only", param="raw_scores")
    options = asked.parameters or _NO_OPTIONS
    if options.top_k is not None and options.top_k < 1:
        where = "parameters.top_k"
        raise InvalidRequest(f"{where} is {options.top_k}: at least 1 is needed", param=where)
    params = extract_params(_options(asked, options), card, prefix="parameters.")
    hub_client = asked.parameters is not None
    alone, texts = _texts(asked.inputs)
    items = checked_items(texts, "json", item_limits(gateway, card), "inputs")
    del asked, texts
    answers = await ask(gateway, request, Question(card, params, "json", items))
    if (failure := failed(answers)) is not None:
        return failure
    shapes = [_shape(item, options.top_k) for item in await answers.every()]
    if not alone:
        return Response(msgspec.json.encode(shapes))
    # The hub's own server wraps the labels of one text, but not those that were asked for.
    wrapped = hub_client and options.candidate_labels is None and card_head(card) == _CLASSES
    return Response(msgspec.json.encode(shapes if wrapped else shapes[0]))


def is_file(request: Request, body: Buffer) -> bool:
    """Whether the body is an image or sound; the hub's client does not always say its type."""
    type_ = media_type(request.headers.get(b"content-type", b""))
    return type_ != JSON and (bool(type_) or bytes(body[:64]).lstrip()[:1] != b"{")


_CLASSES = "sequence-labels"


def card_head(card: Card) -> str:
    """Which kind of model it is."""
    assert card.tasks.extract is not None, "the route looked"
    return card.tasks.extract.head


def _options(asked: PredictBody, options: PredictParameters) -> ExtractOptions:
    if options.hypothesis_template is not None:
        where = "parameters.hypothesis_template"
        raise InvalidRequest(f"{where}: the model's card has its template", param=where)
    labels = None if options.candidate_labels is None else tuple(options.candidate_labels)
    return ExtractOptions(labels, None, options.multi_label, asked.truncate is not False)


def _texts(raw: msgspec.Raw) -> tuple[bool, list[msgspec.Raw]]:
    """Whether a single text was given, and all of them."""
    kind = KINDS["json"][memoryview(raw)[0]]
    if kind is TEXT:
        return True, [raw]
    if kind is not LIST:
        raise InvalidRequest(f"inputs must be a text or lists of one; it is {kind}", param="inputs")
    rows = _pairs.decode(raw)
    if rows and KINDS["json"][memoryview(rows[0])[0]] is TEXT:
        return True, [_one(rows, "inputs")]
    return False, [_one(_row(row, n), f"inputs[{n}]") for n, row in enumerate(rows)]


def _row(raw: msgspec.Raw, position: int) -> list[msgspec.Raw]:
    where = f"inputs[{position}]"
    if KINDS["json"][memoryview(raw)[0]] is not LIST:
        raise InvalidRequest(f"{where} must be a list of one text, as all are", param=where)
    return _pairs.decode(raw)


def _one(row: list[msgspec.Raw], where: str) -> msgspec.Raw:
    if len(row) != 1:
        raise InvalidRequest(
            f"{where} has {len(row)} texts: pairs are not taken; for several texts send lists of "
            'one each, [["a"], ["b"]]',
            param=where,
        )
    return row[0]


async def _of_file(gateway: Gateway, request: Request, card: Card, body: Buffer) -> Response:
    """The whole body is an image or sound."""
    limits = item_limits(gateway, card)
    if limits.media_bytes is None:
        raise UnsupportedMediaType(
            f"'{card.name}' takes no images or sound: send application/json", param="Content-Type"
        )
    params = extract_params(ExtractOptions(), card)
    item = await media_item(body)
    items = checked_items([msgspec.Raw(item)], "msgpack", limits, "inputs")
    del body, item
    answers = await ask(gateway, request, Question(card, params, "msgpack", items))
    if (failure := failed(answers)) is not None:
        return failure
    return Response(msgspec.json.encode(_shape((await answers.every())[0], None)))


def _shape(item: ItemAnswer, top_k: int | None) -> Any:
    found = {name: msgspec.msgpack.decode(raw) for name, raw in told(item).items()}
    if "entities" in found:
        return [_entity(entity) for entity in found["entities"]]
    if "labels" in found:
        return [
            {"score": label["score"], "label": label["label"]} for label in found["labels"][:top_k]
        ]
    return {"text": found.get("text", "")}


def _entity(entity: dict[str, Any]) -> dict[str, Any]:
    return {
        "entity_group": entity["label"],
        "score": entity["score"],
        "word": entity["text"],
        "start": entity["start"],
        "end": entity["end"],
    }

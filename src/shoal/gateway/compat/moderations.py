"""`POST /v1/moderations`: OpenAI's shape, of a model that classes texts.

Decides which classes flag a text. https://platform.openai.com/docs/api-reference/moderations
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.errors import InvalidItem, InvalidRequest
from shoal.gateway.asking import Question, ask, card_for, item_limits, refusal
from shoal.gateway.body import KINDS, LIST, MAP, BodyDecoder, checked_items
from shoal.gateway.compat.bodies import read_json
from shoal.gateway.compat.inputs import inputs
from shoal.gateway.envelope import openai
from shoal.gateway.extract import told
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway
from shoal.values import ExtractParams

#: From here on a class counts, where the model's card names no threshold.
THRESHOLD = 0.5


class ModerationsBody(msgspec.Struct, frozen=True):
    """Body of an OpenAI moderations request; fields it does not know are ignored."""

    input: Annotated[
        msgspec.Raw,
        Meta(
            description="A text, texts, or the parts of one text, `{type: text, text: …}`.",
            extra_json_schema={
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "string"}},
                    {"type": "array", "items": {"type": "object"}},
                ]
            },
        ),
    ]
    model: Annotated[
        str | None, Meta(description="A model's name or alias; unset: the one that classes texts.")
    ] = None


class ModerationResult(msgspec.Struct, frozen=True):
    """The model's own classes: which of them count, and how surely."""

    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, float]
    category_applied_input_types: dict[str, list[str]]


class ModerationsAnswer(msgspec.Struct, frozen=True):
    """One result a text."""

    id: str
    model: str
    results: list[ModerationResult]


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


_decoder = BodyDecoder(ModerationsBody)
_raws = msgspec.json.Decoder(list[msgspec.Raw])


class ModerationsRoute:
    """The route's handler, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request, rest: str) -> Response:
        """Class the body's `input`."""
        gateway = self._gateway
        body: ModerationsBody = await read_json(gateway, request, _decoder)
        card = card_for(gateway, body.model, "extract", ("sequence-labels",))
        items = checked_items(_texts(body.input), "json", item_limits(gateway, card), "input")
        model = body.model or card.name
        del body  # only the items view it now
        # Every class is told, however unlikely.
        answers = await ask(
            gateway, request, Question(card, ExtractParams(None, 0.0), "json", items)
        )
        if (refused := refusal(answers, "input[{}]", openai)) is not None:
            return refused
        results = [_result(item, card) for item in await answers.every()]
        return Response(msgspec.json.encode(ModerationsAnswer(request.id, model, results)))


def _texts(raw: msgspec.Raw) -> list[msgspec.Raw]:
    kinds = KINDS["json"]
    if kinds[memoryview(raw)[0]] is LIST:
        parts = _raws.decode(raw)
        if parts and kinds[memoryview(parts[0])[0]] is MAP:
            return [_joined(parts)]
    return inputs(raw, "input")


def _joined(parts: list[msgspec.Raw]) -> msgspec.Raw:
    """The one text that several parts are."""
    texts = []
    for position, raw in enumerate(parts):
        where = f"input[{position}]"
        try:
            part = msgspec.json.decode(raw, type=_Part)
        except msgspec.DecodeError as error:
            raise InvalidItem(f"{where}: {error}", param=where) from None
        if part.type != "text":
            raise InvalidRequest(
                f"{where} is of type {part.type[:20]}; texts are taken", param=where
            )
        texts.append(part.text)
    return msgspec.Raw(msgspec.json.encode("\n".join(texts)))


def _result(item: ItemAnswer, card: Card) -> ModerationResult:
    labels: list[dict[str, Any]] = msgspec.msgpack.decode(told(item)["labels"])
    task = card.tasks.extract
    least = THRESHOLD if task is None or task.threshold is None else task.threshold
    scores = {label["label"]: float(label["score"]) for label in labels}
    categories = {name: score >= least for name, score in scores.items()}
    harmless = () if task is None else task.harmless
    flagged = any(held and name not in harmless for name, held in categories.items())
    return ModerationResult(flagged, categories, scores, {name: ["text"] for name in scores})

"""`POST /v1/rerank` and `/v2/rerank`: Cohere's shapes; `/v1/rerank` is Jina's as well.

Decides how their fields map to ours, and the order of results.
https://docs.cohere.com/reference/rerank, https://docs.cohere.com/v1/reference/rerank,
https://jina.ai/reranker
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.errors import ErrorInfo, InvalidItem, InvalidRequest
from shoal.gateway.asking import Answers, Question, ask, card_for, item_limits, refusal
from shoal.gateway.body import KINDS, MAP, TEXT, BodyDecoder, checked_items
from shoal.gateway.compat.bodies import read_json
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.score import checked_query, document_tokens, score_of
from shoal.gateway.service import Gateway
from shoal.tasks.score import sigmoid
from shoal.values import ScoreParams
from shoal.wire.codec import Buffer

_DOCUMENT: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    ]
}


#: Read in one go, some 0.5 ms.
_STEP_BYTES = 256 * 1024
#: Heads that answer with a logit.
_LOGITS = ("cross-encoder", "yes-no")


class RerankBody(msgspec.Struct, frozen=True):
    """Body of a rerank request; fields it does not know are ignored."""

    query: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "string"})]
    documents: Annotated[
        list[msgspec.Raw],
        Meta(
            description="Texts, or maps with a `text`; what is too long is cut.",
            extra_json_schema={"items": _DOCUMENT},
        ),
    ]
    model: Annotated[
        str | None, Meta(description="A model's name or alias; unset: the one that is served.")
    ] = None
    top_n: Annotated[int | None, Meta(description="Answer with so many of the best.")] = None
    return_documents: Annotated[
        bool | None, Meta(description="Answer with the documents too, as maps.")
    ] = None
    max_tokens_per_doc: Annotated[
        int | None, Meta(description="Cut documents to so many tokens, where the model can.")
    ] = None
    rank_fields: Annotated[
        list[str] | None,
        Meta(description="Of documents that are maps, which fields are read; unset: `text`."),
    ] = None


class Ranked(msgspec.Struct, frozen=True, omit_defaults=True):
    """One document's score; `index` is its place in the request."""

    index: int
    relevance_score: float
    document: Annotated[
        msgspec.Raw | None,
        Meta(extra_json_schema={"anyOf": [{"type": "object"}, {"type": "null"}]}),
    ] = None


class RerankUsage(msgspec.Struct, frozen=True):
    """Tokens read, as Jina tells them."""

    total_tokens: int
    prompt_tokens: int


class RerankTokens(msgspec.Struct, frozen=True):
    """Tokens read, as Cohere tells them."""

    input_tokens: int


class ApiVersion(msgspec.Struct, frozen=True):
    """Which of Cohere's APIs answered."""

    version: str


class RerankMeta(msgspec.Struct, frozen=True):
    """What Cohere's clients keep beside the results."""

    api_version: ApiVersion
    tokens: RerankTokens


class RerankAnswer(msgspec.Struct, frozen=True):
    """The best documents first; of equal ones the earlier."""

    id: str
    model: str
    results: list[Ranked]
    usage: RerankUsage
    meta: RerankMeta


class CohereErrorAnswer(msgspec.Struct, frozen=True):
    """An error: Cohere's clients read `message`, Jina's `detail`."""

    message: str
    detail: str
    code: str
    param: str | None


def cohere(error: ErrorInfo) -> dict[str, Any]:
    """The error's shape on these routes."""
    return msgspec.structs.asdict(
        CohereErrorAnswer(error.message, error.message, error.code, error.param)
    )


_decoder = BodyDecoder(RerankBody)


class RerankRoute:
    """The handlers, bound to a gateway; `version` is that of Cohere's API."""

    def __init__(self, gateway: Gateway, version: str) -> None:
        self._gateway = gateway
        self._version = version

    async def post(self, request: Request, rest: str) -> Response:
        """Score the documents against the query, and order them."""
        gateway = self._gateway
        body: RerankBody = await read_json(gateway, request, _decoder)
        card = card_for(gateway, body.model, "score")
        if body.top_n is not None and body.top_n < 1:
            raise InvalidRequest(f"top_n is {body.top_n}: at least 1 is needed", param="top_n")
        limits = item_limits(gateway, card)
        items = checked_items(body.documents, "json", limits, "documents")
        texts = await _texts(items, body.rank_fields)
        most = document_tokens(body.max_tokens_per_doc, card, "max_tokens_per_doc")
        params = ScoreParams(checked_query(body.query, "json", limits), document_tokens=most)
        shown = body.documents if body.return_documents else []
        body = msgspec.structs.replace(body, documents=[])  # only the items view it now
        answers = await ask(gateway, request, Question(card, params, "json", texts))
        if (refused := refusal(answers, "documents[{}]", cohere)) is not None:
            return refused
        places, scores = await ranked(answers, body.top_n)
        results = [
            Ranked(place, score, _document(shown[place]) if shown else None)
            for place, score in zip(places, relevance(scores, card), strict=True)
        ]
        answer = self._answer(request, body.model or card.name, results, answers.tokens)
        return Response(msgspec.json.encode(answer))

    def _answer(
        self, request: Request, model: str, results: list[Ranked], tokens: int
    ) -> RerankAnswer:
        usage = RerankUsage(tokens, tokens)
        meta = RerankMeta(ApiVersion(self._version), RerankTokens(tokens))
        return RerankAnswer(request.id, model, results, usage, meta)


async def ranked(answers: Answers, most: int | None = None) -> tuple[list[int], list[float]]:
    """Positions of the items and their scores, the best first; of equal ones the earlier."""
    scores = [(item.position, score_of(item)) for item in await answers.every()]
    best = sorted(scores, key=lambda ranked: -ranked[1])[:most]
    return [place for place, _ in best], [score for _, score in best]


def relevance(scores: list[float], card: Card) -> list[float]:
    """Scores from 0 to 1, as clients expect, of a model whose card leaves them logits.

    What late interaction and cosines give stays as it is: it is none.
    """
    task = card.tasks.score
    logit = task is not None and task.head in _LOGITS and task.activation == "identity"
    return sigmoid(np.array(scores)).tolist() if logit else scores


async def _texts(items: list[Buffer], fields: list[str] | None) -> list[Buffer]:
    """The documents as items; maps are read with a pause behind so many bytes."""
    texts: list[Buffer] = []
    read_bytes = 0
    for position, item in enumerate(items):
        texts.append(_text(item, position, fields))
        read_bytes += 0 if texts[-1] is item else len(item)
        if read_bytes > _STEP_BYTES:
            read_bytes = 0
            await asyncio.sleep(0)
    return texts


def _text(item: Buffer, position: int, fields: list[str] | None) -> Buffer:
    """The document as an item: a JSON string."""
    if KINDS["json"][item[0]] is TEXT:
        return item
    where = f"documents[{position}]"
    if KINDS["json"][item[0]] is not MAP:
        raise InvalidItem(f"{where} must be a string or a map with a 'text'", param=where)
    document = _map(item, where)
    wanted = fields or ["text"]
    values = [value for name in wanted if (value := document.get(name)) is not None]
    if not values:
        names = " or ".join(f"'{name}'" for name in wanted)
        raise InvalidItem(f"{where} has no {names}", param=where)
    return msgspec.json.encode("\n".join([_shown(value) for value in values]))


def _shown(value: Any) -> str:
    """A text as it is; whatever else a map may hold as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _map(item: Buffer, where: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(item)
    except (msgspec.DecodeError, RecursionError):
        raise InvalidItem(f"{where} is not valid JSON", param=where) from None
    return found


def _document(raw: msgspec.Raw) -> msgspec.Raw:
    """A document as it is given back, never decoded: a text becomes a map."""
    document = bytes(raw)
    return raw if KINDS["json"][document[0]] is MAP else msgspec.Raw(b'{"text":%b}' % document)

"""`/rerank`: texts by how well they answer a query, the best first."""

from __future__ import annotations

import msgspec

from shoal.gateway.asking import Question, ask, card_for, item_limits
from shoal.gateway.body import BodyDecoder, checked_items
from shoal.gateway.compat.rerank import ranked, relevance
from shoal.gateway.compat.tei.bodies import Rank, RankBody, check_direction
from shoal.gateway.compat.tei.vectors import failed
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.score import checked_query
from shoal.gateway.service import Gateway
from shoal.values import ScoreParams
from shoal.wire.codec import Buffer

_decode = BodyDecoder(RankBody)


async def rerank(gateway: Gateway, request: Request, model: str | None, body: Buffer) -> Response:
    """``[{"index": 2, "score": 0.9}, …]``."""
    card = card_for(gateway, model, "score")
    asked: RankBody = _decode.decode(body, "json")
    del body
    check_direction(asked.truncation_direction)
    limits = item_limits(gateway, card)
    items = checked_items(asked.texts, "json", limits, "texts")
    query = checked_query(asked.query, "json", limits)
    params = ScoreParams(query, asked.raw_scores, asked.truncate is not False)
    shown = asked.texts if asked.return_text else []
    del asked  # only the items view the body now
    answers = await ask(gateway, request, Question(card, params, "json", items))
    if (failure := failed(answers, "texts")) is not None:
        return failure
    places, scores = await ranked(answers)
    told = scores if params.raw else relevance(scores, card)
    ranks = [
        Rank(place, score, shown[place] if shown else None)
        for place, score in zip(places, told, strict=True)
    ]
    return Response(msgspec.json.encode(ranks))

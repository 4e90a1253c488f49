"""`POST /v1/responses`: OpenAI's shape, without what would be kept between requests.

https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

import time
from functools import partial

import msgspec

from shoal.catalog.card import Card
from shoal.gateway.asking import Question, ask, card_for, item_limits, takers
from shoal.gateway.body import BodyDecoder, checked_items
from shoal.gateway.compat.generation import read_generating, seeds
from shoal.gateway.compat.responses.answers import Asked
from shoal.gateway.compat.responses.bodies import ResponsesBody, check, named, options
from shoal.gateway.compat.responses.events import ResponseEvents
from shoal.gateway.compat.responses.items import conversation_of
from shoal.gateway.counts import counts_of
from shoal.gateway.envelope import openai
from shoal.gateway.growing import read_generation
from shoal.gateway.request import Request
from shoal.gateway.response import EventStream, Response
from shoal.gateway.sampling import generate_params
from shoal.gateway.service import Gateway
from shoal.gateway.streaming import Failing, event_stream

_decoder = BodyDecoder(ResponsesBody)
_FAILING = Failing("input", openai, named)
_READ = msgspec.Raw(b"null")


class ResponsesRoute:
    """The route's handler, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request, rest: str) -> Response | EventStream:
        """What the model says to the body's `input`."""
        gateway = self._gateway
        body: ResponsesBody = await read_generating(gateway, request, _decoder)
        card = card_for(gateway, body.model, "generate")
        question = _question(gateway, body, card)
        body = msgspec.structs.replace(body, input=_READ)  # only the item views it now
        asked = Asked(request.key, body.model or card.name, int(time.time()), body)
        if body.stream:
            return await event_stream(gateway, request, question, ResponseEvents(asked), _FAILING)
        answers = await ask(gateway, request, question)
        if (refused := _FAILING.refusal(answers)) is not None:
            return refused
        (item,) = await answers.every()
        whole = read_generation(item.told)
        response = asked.ended(whole, counts_of(item), asked.output(whole))
        return Response(msgspec.json.encode(response))


def _question(gateway: Gateway, body: ResponsesBody, card: Card) -> Question:
    check(body)
    item, read_bytes = conversation_of(body, card, partial(takers, gateway, "generate"))
    items = checked_items([item], "json", item_limits(gateway, card), "input")
    params = generate_params(
        options(body),
        named,
        chat=True,
        stream=bool(body.stream),
        apart=True,
        read_bytes=read_bytes,
    )
    return Question(card, params, "json", items, seeds(body.seed, 1, 1))

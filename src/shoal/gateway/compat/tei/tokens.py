"""`/tokenize` and `/decode`: texts to tokens and back, by the model's own tokenizer.

A worker that has the model does it, between its batches: the gateway knows no tokenizers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.errors import InvalidRequest
from shoal.gateway.asking import Question, ask, card_for, item_limits
from shoal.gateway.body import KINDS, TEXT, BodyDecoder, checked_items
from shoal.gateway.compat.inputs import inputs
from shoal.gateway.compat.tei.bodies import DecodeBody, TokenizeBody
from shoal.gateway.compat.tei.vectors import failed
from shoal.gateway.extract import told
from shoal.gateway.options import check_prompt
from shoal.gateway.render import json_array
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway
from shoal.values import TokenizeParams
from shoal.wire.codec import Buffer

_decode_tokenize = BodyDecoder(TokenizeBody)
_decode_decode = BodyDecoder(DecodeBody)


async def tokenize(gateway: Gateway, request: Request, model: str | None, body: Buffer) -> Response:
    """``[[{"id": 101, "text": "[CLS]", "special": true, "start": null, "stop": null}, …], …]``."""
    asked: TokenizeBody = _decode_tokenize.decode(body, "json")
    del body  # only the items view it now
    card = card_for(gateway, model, "tokenize")
    check_prompt(asked.prompt_name, card, "prompt_name")
    params = TokenizeParams(asked.add_special_tokens, asked.prompt_name)
    items = _alike(inputs(asked.inputs, "inputs"), "inputs", text=True)
    limits = item_limits(gateway, card)
    question = Question(card, params, "json", checked_items(items, "json", limits, "inputs"))
    del asked, items
    return await _told(gateway, request, question, "tokens", "inputs")


async def decode(gateway: Gateway, request: Request, model: str | None, body: Buffer) -> Response:
    """``["a fish", …]``: the text of each list of ids."""
    asked: DecodeBody = _decode_decode.decode(body, "json")
    del body
    card = card_for(gateway, model, "tokenize")
    params = TokenizeParams(special=not asked.skip_special_tokens)
    items = _alike(inputs(asked.ids, "ids"), "ids", text=False)
    limits = item_limits(gateway, card)
    question = Question(card, params, "json", checked_items(items, "json", limits, "ids"))
    del asked, items
    return await _told(gateway, request, question, "text", "ids")


def _alike(items: list[msgspec.Raw], name: str, *, text: bool) -> list[msgspec.Raw]:
    """All are alike already; raises `InvalidRequest` where they are not of this kind."""
    if items and (KINDS["json"][memoryview(items[0])[0]] is TEXT) != text:
        what = "texts" if text else "lists of token ids"
        raise InvalidRequest(f"{name} must be {what}", param=name)
    return items


async def _told(
    gateway: Gateway, request: Request, question: Question, key: str, name: str
) -> Response:
    answers = await ask(gateway, request, question)
    if (failure := failed(answers, name)) is not None:
        return failure
    parts: Any = ([msgspec.msgpack.decode(told(item)[key]) for item in u] for u in answers.units())
    return Response(await json_array(parts))

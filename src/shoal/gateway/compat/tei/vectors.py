"""`/embed`, `/embed_all`, `/embed_sparse` and `/similarity`: vectors as bare lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from shoal.gateway.asking import Answers, Question, ask, card_for, item_limits, refusal
from shoal.gateway.body import BodyDecoder, checked_items
from shoal.gateway.compat.inputs import inputs
from shoal.gateway.compat.tei.bodies import EmbedBody, SimilarityBody, check_direction, tei
from shoal.gateway.options import EncodeOptions, checked_params
from shoal.gateway.render import Vector, json_array
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway
from shoal.wire.codec import Buffer
from shoal.wire.outputs import Sparse

_decode_embed = BodyDecoder(EmbedBody)
_decode_similarity = BodyDecoder(SimilarityBody)


async def embed(gateway: Gateway, request: Request, model: str | None, body: Buffer) -> Response:
    """``[[0.1, …], …]``: one vector a text."""
    return await _vectors(gateway, request, model, body, "dense")


async def embed_all(
    gateway: Gateway, request: Request, model: str | None, body: Buffer
) -> Response:
    """``[[[0.1, …], …], …]``: a vector a token."""
    return await _vectors(gateway, request, model, body, "multivector")


async def embed_sparse(
    gateway: Gateway, request: Request, model: str | None, body: Buffer
) -> Response:
    """``[[{"index": 3, "value": 0.1}, …], …]``: the terms of each text."""
    return await _vectors(gateway, request, model, body, "sparse")


async def _vectors(
    gateway: Gateway, request: Request, model: str | None, body: Buffer, output: str
) -> Response:
    card = card_for(gateway, model, "encode")
    asked: EmbedBody = _decode_embed.decode(body, "json")
    del body  # only the items view it now
    check_direction(asked.truncation_direction)
    options = EncodeOptions(
        outputs=(output,),
        dimensions=asked.dimensions,
        normalize=asked.normalize is not False,
        truncate=asked.truncate is not False,
        prompt=asked.prompt_name,
    )
    params = checked_params(options, card, prefix="")
    items = checked_items(
        inputs(asked.inputs, "inputs"), "json", item_limits(gateway, card), "inputs"
    )
    del asked
    answers = await ask(gateway, request, Question(card, params, "json", items))
    if (failure := failed(answers)) is not None:
        return failure
    shape = _SHAPES.get(output, _as_it_is)
    parts = ([shape(item.vectors[output]) for item in unit] for unit in answers.units())
    return Response(await json_array(parts))


def _as_it_is(row: Any) -> Any:
    return row


def _terms(row: Any) -> list[dict[str, Any]]:
    sparse = cast(Sparse, row)
    pairs = zip(sparse.indices.tolist(), sparse.values, strict=True)
    return [{"index": index, "value": value} for index, value in pairs]


_SHAPES: dict[str, Callable[[Any], Any]] = {"sparse": _terms}


def failed(answers: Answers, name: str = "inputs") -> Response | None:
    """The response of a request that fails with its first bad item; None if none is."""
    return refusal(answers, f"{name}[{{}}]", tei)


async def similarity(
    gateway: Gateway, request: Request, model: str | None, body: Buffer
) -> Response:
    """``[0.9, …]``: the cosine of the first text and each of the others."""
    card = card_for(gateway, model, "encode")
    asked: SimilarityBody = _decode_similarity.decode(body, "json")
    del body
    options = EncodeOptions(outputs=("dense",), normalize=True)
    if asked.parameters is not None:
        check_direction(asked.parameters.truncation_direction)
        options = EncodeOptions(
            outputs=("dense",),
            normalize=True,
            truncate=asked.parameters.truncate is not False,
            prompt=asked.parameters.prompt_name,
        )
    params = checked_params(options, card, prefix="parameters.")
    limits = item_limits(gateway, card)
    source = checked_items([asked.inputs.source_sentence], "json", limits, "source_sentence")
    items = source + checked_items(asked.inputs.sentences, "json", limits, "sentences")
    del asked, source
    answers = await ask(gateway, request, Question(card, params, "json", items))
    if (failure := failed(answers)) is not None:
        return failure
    rows = [_dense(item) for item in await answers.every()]
    cosines = np.stack(rows[1:]) @ rows[0]
    return Response(await json_array([list(cosines)]))


def _dense(item: ItemAnswer) -> Vector:
    return cast(Vector, item.vectors["dense"])

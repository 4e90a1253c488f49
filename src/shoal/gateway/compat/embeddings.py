"""`POST /v1/embeddings`: OpenAI's shape, exact enough for the official clients.

Decides how its fields map to ours. https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from shoal.gateway.asking import Answers, Question, ask, card_for, item_limits, refusal
from shoal.gateway.body import BodyDecoder, checked_items
from shoal.gateway.compat.bodies import read_json
from shoal.gateway.compat.inputs import INPUT_SCHEMA, inputs
from shoal.gateway.envelope import openai
from shoal.gateway.options import EncodeOptions, checked_params
from shoal.gateway.render import Vector, base64_text, json_list
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway


class EmbeddingsBody(msgspec.Struct, frozen=True):
    """Body of an OpenAI embeddings request; fields it does not know are ignored."""

    model: Annotated[str, Meta(description="A model's name or alias.")]
    input: Annotated[
        msgspec.Raw,
        Meta(
            description="A text, texts, token ids, or lists of token ids.",
            extra_json_schema=INPUT_SCHEMA,
        ),
    ]
    dimensions: Annotated[
        int | None, Meta(description="Cut vectors to this width, then normalise them again.")
    ] = None
    encoding_format: Annotated[
        Literal["float", "base64"] | None,
        Meta(description="`base64` is little-endian float32."),
    ] = None
    user: Annotated[
        str | None, Meta(description="Who of the caller's own users asks; users take turns.")
    ] = None
    truncate: Annotated[
        bool | None, Meta(description="Cut inputs that are too long (the default).")
    ] = None


_decoder = BodyDecoder(EmbeddingsBody)
_READ = msgspec.Raw(b"null")


class EmbeddingsRoute:
    """The route's handler, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request, rest: str) -> Response:
        """Embed the body's `input`."""
        gateway = self._gateway
        body: EmbeddingsBody = await read_json(gateway, request, _decoder)
        if body.user:
            request.user = body.user.encode("utf-8", "surrogatepass")
        card = card_for(gateway, body.model, "encode")
        options = EncodeOptions(
            outputs=("dense",), dimensions=body.dimensions, truncate=body.truncate is not False
        )
        params = checked_params(options, card, prefix="")
        items = checked_items(
            inputs(body.input, "input"), "json", item_limits(gateway, card), "input"
        )
        body = msgspec.structs.replace(body, input=_READ)  # only the items view it now
        answers = await ask(gateway, request, Question(card, params, "json", items))
        if (refused := refusal(answers, "input[{}]", openai)) is not None:
            return refused
        return await _success(body, answers)


async def _success(body: EmbeddingsBody, answers: Answers) -> Response:
    as_text = body.encoding_format == "base64"
    parts = ([_embedding(item, as_text) for item in unit] for unit in answers.units())
    usage = {"prompt_tokens": answers.tokens, "total_tokens": answers.tokens}
    after = {"model": body.model, "usage": usage}
    return Response(await json_list(parts, {"object": "list"}, "data", after))


def _embedding(item: ItemAnswer, as_text: bool) -> dict[str, Any]:
    row = cast(Vector, item.vectors["dense"])
    shape: dict[str, Any] = {
        "object": "embedding",
        "index": item.position,
        "embedding": base64_text(row) if as_text else row,
    }
    if item.truncated:
        shape["truncated"] = True
    return shape

"""Which of text-embeddings-inference's operations a path means, and for which model.

That server has one model. Here it is the one in the path (`/tei/{model}/embed`), in `?model=`, or
the only one that does the task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container

import msgspec

from shoal import __version__
from shoal.catalog.card import Card
from shoal.errors import ErrorInfo, InvalidRequest, MethodNotAllowed, UnsupportedMediaType
from shoal.gateway.asking import only_model, read_body
from shoal.gateway.body import KINDS, MAP, BodyDecoder
from shoal.gateway.compat.tei.bodies import AnyBody, Info, tei
from shoal.gateway.compat.tei.predictions import is_file, predict
from shoal.gateway.compat.tei.ranks import rerank
from shoal.gateway.compat.tei.tokens import decode, tokenize
from shoal.gateway.compat.tei.vectors import embed, embed_all, embed_sparse, similarity
from shoal.gateway.envelope import error_response
from shoal.gateway.headers import JSON, media_type
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.router import Handler
from shoal.gateway.service import Gateway
from shoal.wire.codec import Buffer

Work = Callable[[Gateway, Request, str | None, Buffer], Awaitable[Response]]

_decode_any = BodyDecoder(AnyBody)


async def by_fields(
    gateway: Gateway, request: Request, model: str | None, body: Buffer
) -> Response:
    """`POST /`: what the body's fields and the model's task say."""
    if is_file(request, body):
        return await predict(gateway, request, model, body)
    asked: AnyBody = _decode_any.decode(body, "json")
    if asked.query:
        return await rerank(gateway, request, model, body)
    if asked.inputs and KINDS["json"][memoryview(asked.inputs)[0]] is MAP:
        return await similarity(gateway, request, model, body)
    del asked
    card = gateway.catalog.card(model or only_model(gateway))
    does = predict if card.tasks.encode is None else embed
    return await does(gateway, request, card.name, body)


WORK: dict[str, Work] = {
    "": by_fields,
    "embed": embed,
    "embed_all": embed_all,
    "embed_sparse": embed_sparse,
    "similarity": similarity,
    "rerank": rerank,
    "predict": predict,
    "tokenize": tokenize,
    "decode": decode,
}
#: These take files too, as the whole body.
_TAKES_FILES = ("", "predict")


class TeiRoutes:
    """The handlers, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def post(self, name: str) -> Handler:
        """The handler of ``POST /<name>``."""

        async def handle(request: Request, rest: str) -> Response:
            return await self._work(request, name, request.query("model"))

        return handle

    async def post_to(self, request: Request, rest: str) -> Response:
        """`POST /tei/{model}/<name>`, or without a name."""
        model, name = _split(rest, WORK)
        return await self._work(request, name, model)

    async def get_of(self, request: Request, rest: str) -> Response:
        """`GET /tei/{model}/info` and `/health`."""
        model, name = _split(rest, ("info", "health"))
        if name == "info":
            return self._info(self._gateway.catalog.card(model))
        if name == "health":
            return await self.health(request, rest)
        raise MethodNotAllowed(
            f"GET is not allowed on /tei/{rest[:80]}: use POST, or /info behind it"
        )

    async def info(self, request: Request, rest: str) -> Response:
        """`GET /info`: the model, and what it takes."""
        gateway = self._gateway
        return self._info(gateway.catalog.card(request.query("model") or only_model(gateway)))

    async def health(self, request: Request, rest: str) -> Response:
        """`GET /health`: 200 with nothing in it, if requests would be answered."""
        missing = self._gateway.missing()
        if not missing:
            return Response(b"")
        return error_response(ErrorInfo("unavailable", "; ".join(missing), 503), tei)

    async def _work(self, request: Request, name: str, model: str | None) -> Response:
        type_ = media_type(request.headers.get(b"content-type", JSON))
        if type_ != JSON and name not in _TAKES_FILES:
            raise UnsupportedMediaType("this route takes application/json", param="Content-Type")
        body = await read_body(self._gateway, request)
        if not body:
            raise InvalidRequest("the body is empty")
        return await WORK[name](self._gateway, request, model, body)

    def _info(self, card: Card) -> Response:
        profile = card.profile("default")
        info = Info(
            model_id=card.name,
            model_sha=card.source.revision,
            model_dtype=profile.dtype,
            model_type=_type(card),
            max_input_length=card.max_tokens,
            max_batch_tokens=profile.max_batch_tokens,
            max_client_batch_size=self._gateway.settings.max_items,
            version=__version__,
        )
        return Response(msgspec.json.encode(info))


def _split(rest: str, names: Container[str]) -> tuple[str, str]:
    """Model and name of a path; a last part that is no name belongs to the model."""
    model, slash, name = rest.rstrip("/").rpartition("/")
    return (model, name) if slash and name in names else (rest.rstrip("/"), "")


def _type(card: Card) -> dict[str, object]:
    """``embedding``, ``reranker`` or ``classifier``, as that server names kinds of models."""
    tasks = card.tasks
    if tasks.encode is not None:
        dense = tasks.encode.dense
        return {"embedding": {"pooling": dense.pooling if dense else tasks.encode.outputs()[0]}}
    if tasks.score is not None:
        return {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}}
    labels = list(enumerate(tasks.extract.labels if tasks.extract else []))
    return {
        "classifier": {
            "id2label": {str(n): label for n, label in labels},
            "label2id": {label: n for n, label in labels},
        }
    }

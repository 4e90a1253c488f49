"""`POST /v1/completions`: OpenAI's older shape, of texts that are gone on with.

Decides how its fields map to ours, and the shapes of its answer, whole and in chunks.
https://platform.openai.com/docs/api-reference/completions
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shoal.catalog.card import Card
from shoal.errors import ErrorInfo, InvalidRequest
from shoal.gateway.asking import Question, ask, card_for, item_limits
from shoal.gateway.body import BodyDecoder, checked_items
from shoal.gateway.compat.generation import (
    CompletionUsage,
    NoEffect,
    Refused,
    ResponseFormat,
    SharedFields,
    count,
    logprob,
    options,
    read_generating,
    refuse,
    seeds,
    token_text,
    usage,
)
from shoal.gateway.compat.inputs import INPUT_SCHEMA, inputs
from shoal.gateway.counts import Counts, counts_of
from shoal.gateway.envelope import openai
from shoal.gateway.feed import Growth
from shoal.gateway.growing import read_generation
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.request import Request
from shoal.gateway.response import EventStream, Response
from shoal.gateway.sampling import generate_params
from shoal.gateway.service import Gateway
from shoal.gateway.streaming import DONE, Failing, event, event_stream
from shoal.wire.objects import Generation, TokenLogprob

_REFUSED = {"suffix": "a text is gone on with, and not filled in"}
#: OpenAI generates so many where nobody says, and clients count with it.
MAX_TOKENS = 16


class CompletionsBody(SharedFields, frozen=True, kw_only=True):
    """Body of an OpenAI completions request."""

    prompt: Annotated[
        msgspec.Raw,
        Meta(
            description="A text, texts, token ids, or lists of token ids.",
            extra_json_schema=INPUT_SCHEMA,
        ),
    ]
    best_of: Annotated[int | None, Meta(description="As `n`, or unset.")] = None
    echo: Annotated[bool | None, Meta(description="`true` is refused.")] = None
    logprobs: int | None = None
    response_format: ResponseFormat | None = None
    metadata: NoEffect = None
    service_tier: NoEffect = None
    store: NoEffect = None
    suffix: Refused = None


class CompletionLogprobs(msgspec.Struct, frozen=True):
    """Lists of equal length, an entry a token; `text_offset` counts characters of the text."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(msgspec.Struct, frozen=True):
    """One text; of several prompts the `n` of each follow one another."""

    index: int
    text: str
    finish_reason: Literal["stop", "length"] | None
    logprobs: CompletionLogprobs | None = None


class CompletionAnswer(msgspec.Struct, frozen=True):
    """OpenAI's completion; in a stream each event is one. `usage`: there only as in chat's."""

    id: str
    created: int
    model: str
    choices: list[CompletionChoice]
    object: Literal["text_completion"] = "text_completion"
    usage: CompletionUsage | UnsetType | None = UNSET


class _Form(msgspec.Struct, frozen=True):
    """As `chat_answers.Form`; `texts`: of all prompts, `n` for each."""

    id: str
    model: str
    texts: int
    n: int
    with_usage: bool


_decoder = BodyDecoder(CompletionsBody)


class CompletionsRoute:
    """The route's handler, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request, rest: str) -> Response | EventStream:
        """Go on with the body's `prompt`."""
        gateway = self._gateway
        body: CompletionsBody = await read_generating(gateway, request, _decoder)
        card = card_for(gateway, body.model, "generate")
        question, n = _question(gateway, body, card)
        form = _Form(
            f"cmpl-{request.key}",
            body.model or card.name,
            len(question.items),
            n,
            body.with_usage,
        )
        streamed, names = body.stream, body.named()
        del body  # only the items view it now
        failing = Failing("prompt[{}]" if n == 1 else "prompt", openai, names)
        if streamed:
            return await event_stream(gateway, request, question, _Events(form), failing)
        answers = await ask(gateway, request, question)
        if (refused := failing.refusal(answers)) is not None:
            return refused
        return Response(msgspec.json.encode(_answer(form, await answers.every())))


def _question(gateway: Gateway, body: CompletionsBody, card: Card) -> tuple[Question, int]:
    """What is asked, and how many texts follow each prompt."""
    refuse(body, _REFUSED)
    n = count(body.n)
    if body.echo:
        raise InvalidRequest("echo: the prompt is not said again", param="echo")
    if body.best_of not in (None, n):
        raise InvalidRequest("best_of: as many texts are told as are generated", param="best_of")
    prompts = inputs(body.prompt, "prompt")
    items = checked_items(prompts, "json", item_limits(gateway, card), "prompt", times=n)
    form = body.response_format
    fields: dict[str, Any] = {
        **body.shared(),
        "max_tokens": MAX_TOKENS if body.max_tokens is None else body.max_tokens,
        "logprobs": body.logprobs,
    }
    forms = {} if form is None else form.forms("response_format")
    given = options(fields, body.forms(), forms)
    params = generate_params(given, body.named(), chat=False, stream=bool(body.stream))
    return Question(card, params, "json", items, seeds(body.seed, len(prompts), n)), n


def _answer(form: _Form, items: list[ItemAnswer]) -> CompletionAnswer:
    choices = [_whole(item.position, read_generation(item.told)) for item in items]
    told = usage([(item.position, counts_of(item)) for item in items], form.n)
    return CompletionAnswer(form.id, int(time.time()), form.model, choices, usage=told)


def _whole(index: int, whole: Generation) -> CompletionChoice:
    told = None if whole.logprobs is None else logprobs_of(whole.logprobs, 0)
    return CompletionChoice(index, whole.text, _finish(whole), told)


def _finish(whole: Generation) -> Literal["stop", "length"]:
    return "length" if whole.finish == "length" else "stop"


def logprobs_of(told: list[TokenLogprob], offset: int) -> CompletionLogprobs:
    """Of tokens whose first begins at `offset`."""
    offsets = []
    for token in told:
        offsets.append(offset)
        offset += len(token.text)
    return CompletionLogprobs(
        [token_text(token) for token in told],
        [logprob(token.logprob) for token in told],
        [{token_text(other): logprob(other.logprob) for other in token.top} for token in told],
        offsets,
    )


class _Events:
    """The chunks of one stream; a text's reason is in its last, then `[DONE]`."""

    def __init__(self, form: _Form) -> None:
        self._form = form
        self._created = int(time.time())
        self._offsets = [0] * form.texts
        self._counts: list[tuple[int, Counts]] = []

    def begin(self) -> bytes:
        return b""

    def grown(self, growth: Growth) -> bytes:
        finish, item = None, growth.item
        if growth.answer is not None and growth.whole is not None:
            self._counts.append((item, counts_of(growth.answer)))
            finish = _finish(growth.whole)
        told = logprobs_of(growth.told, self._offsets[item]) if growth.told else None
        self._offsets[item] += sum(len(token.text) for token in growth.told)
        return self._chunk([CompletionChoice(item, growth.text, finish, told)], None)

    def end(self) -> bytes:
        if not self._form.with_usage:
            return DONE
        return self._chunk([], usage(self._counts, self._form.n)) + DONE

    def failed(self, error: ErrorInfo) -> bytes:
        return event(openai(error))

    def _chunk(self, choices: list[CompletionChoice], told: CompletionUsage | None) -> bytes:
        form = self._form
        told_or_not = told if form.with_usage else UNSET
        return event(
            CompletionAnswer(form.id, self._created, form.model, choices, usage=told_or_not)
        )

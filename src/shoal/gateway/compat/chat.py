"""`POST /v1/chat/completions`: OpenAI's shape, exact enough for the official clients.

Decides how its fields map to ours. https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.errors import InvalidRequest
from shoal.gateway.asking import Question, ask, card_for, item_limits, takers
from shoal.gateway.body import BodyDecoder, checked_items
from shoal.gateway.compat.chat_answers import ChatEvents, Form, chat_answer
from shoal.gateway.compat.generation import (
    NoEffect,
    Refused,
    ResponseFormat,
    SharedFields,
    chosen_tool,
    count,
    options,
    read_generating,
    refuse,
    seeds,
)
from shoal.gateway.compat.messages import MESSAGES_SCHEMA, conversation
from shoal.gateway.envelope import openai
from shoal.gateway.request import Request
from shoal.gateway.response import EventStream, Response
from shoal.gateway.sampling import GenerateOptions, generate_params
from shoal.gateway.service import Gateway
from shoal.gateway.streaming import Failing, event_stream

_REFUSED = {
    "functions": "use tools",
    "function_call": "use tool_choice",
    "audio": "texts are generated",
    "web_search_options": "nothing is searched",
    "moderation": "ask /v1/moderations",
    "verbosity": "say in a message how long the text is to be",
}


class ChatBody(SharedFields, frozen=True, kw_only=True):
    """Body of an OpenAI chat request."""

    messages: Annotated[msgspec.Raw, Meta(extra_json_schema=MESSAGES_SCHEMA)]
    logprobs: bool | None = None
    max_completion_tokens: int | None = None
    parallel_tool_calls: Annotated[
        bool | None, Meta(description="`false`: the first call alone is told.")
    ] = None
    reasoning_effort: Annotated[
        str | None, Meta(description="Given to the model's chat template.")
    ] = None
    response_format: ResponseFormat | None = None
    tool_choice: str | dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    top_logprobs: int | None = None
    chat_template_kwargs: Annotated[
        dict[str, Any] | None, Meta(description="What else the chat template is given.")
    ] = None
    modalities: list[str] | None = None

    metadata: NoEffect = None
    prediction: NoEffect = None
    prompt_cache_key: NoEffect = None
    prompt_cache_options: NoEffect = None
    prompt_cache_retention: NoEffect = None
    safety_identifier: NoEffect = None
    service_tier: NoEffect = None
    store: NoEffect = None

    audio: Refused = None
    function_call: Refused = None
    functions: Refused = None
    moderation: Refused = None
    verbosity: Refused = None
    web_search_options: Refused = None


_decoder = BodyDecoder(ChatBody)


class ChatRoute:
    """The route's handler, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request, rest: str) -> Response | EventStream:
        """What the model says to the body's `messages`."""
        gateway = self._gateway
        body: ChatBody = await read_generating(gateway, request, _decoder)
        card = card_for(gateway, body.model, "generate")
        question = _question(gateway, body, card)
        form = Form(
            request.key,
            body.model or card.name,
            len(question.items),
            body.with_usage,
            body.parallel_tool_calls is not False,
        )
        failing = Failing("messages", openai, _named(body))
        streamed = body.stream
        del body  # the item is a copy
        if streamed:
            return await event_stream(gateway, request, question, ChatEvents(form), failing)
        answers = await ask(gateway, request, question)
        if (refused := failing.refusal(answers)) is not None:
            return refused
        return Response(msgspec.json.encode(chat_answer(form, await answers.every())))


def _question(gateway: Gateway, body: ChatBody, card: Card) -> Question:
    refuse(body, _REFUSED)
    if body.modalities not in (None, ["text"]):
        raise InvalidRequest("modalities: text is generated", param="modalities")
    n = count(body.n)
    item, read_bytes = conversation(body.messages, card, partial(takers, gateway, "generate"))
    items = checked_items([item], "json", item_limits(gateway, card), "messages", times=n)
    params = generate_params(
        _options(body),
        _named(body),
        chat=True,
        stream=bool(body.stream),
        apart=True,
        read_bytes=read_bytes,
    )
    return Question(card, params, "json", items, seeds(body.seed, 1, n))


def _options(body: ChatBody) -> GenerateOptions:
    form = body.response_format
    template = dict(body.chat_template_kwargs or {})
    if body.reasoning_effort is not None:
        template.setdefault("reasoning_effort", body.reasoning_effort)
    fields = {
        **body.shared(),
        "max_tokens": getattr(body, _most(body)),
        "logprobs": _logprobs(body),
        "tools": body.tools,
        "tool_choice": chosen_tool(body.tool_choice),
        "template": template,
    }
    return options(fields, body.forms(), {} if form is None else form.forms("response_format"))


def _most(body: ChatBody) -> str:
    """The field that says how long the text may be: the newer one, if it is there."""
    return "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"


def _named(body: ChatBody) -> Callable[[str], str]:
    own = {
        "max_tokens": _most(body),
        "logprobs": "top_logprobs",
        "template": "chat_template_kwargs",
    }
    named = body.named()
    return lambda option: own.get(option) or named(option)


def _logprobs(body: ChatBody) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise InvalidRequest("top_logprobs needs logprobs: true", param="top_logprobs")
    return None

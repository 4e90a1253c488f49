"""Turns a checked request into answers: what the native and the OpenAI route have in common."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from shoal.catalog.card import Card
from shoal.errors import ErrorInfo
from shoal.gateway.body import ItemLimits
from shoal.gateway.headers import asked_timeout_s
from shoal.gateway.http import Request
from shoal.gateway.job import Job
from shoal.gateway.options import task_of
from shoal.gateway.replies import Answer, ItemAnswer, items_of
from shoal.gateway.service import Gateway
from shoal.gateway.standing import asked_class, standing_of
from shoal.gateway.units import encoded_size
from shoal.values import EncodeParams, Encoding
from shoal.wire.codec import Buffer
from shoal.wire.queue import Timings


class Answers:
    """The answers to one request, in the order of its items."""

    def __init__(self, answers: list[Answer]) -> None:
        self._answers = answers
        self.items = sum([answer.span.items for answer in answers])
        self.tokens = sum([sum(answer.reply.tokens) for answer in answers])
        self.slowest = max([answer.reply.timings for answer in answers], key=_whole_s)

    def units(self) -> Iterator[list[ItemAnswer]]:
        """The items unit by unit, each read when it is asked for: all at once would take long."""
        return map(items_of, self._answers)

    @property
    def all_failed(self) -> bool:
        return all(
            answer.reply.error is not None or len(answer.reply.errors) == answer.span.items
            for answer in self._answers
        )

    def first_failure(self) -> tuple[int, ErrorInfo] | None:
        """Position and error of the first item that failed; None if none did."""
        for answer in self._answers:
            start, reply = answer.span.start, answer.reply
            if reply.error is not None:
                return start, reply.error
            if reply.errors:
                first = min(reply.errors)
                return start + first, reply.errors[first]
        return None


def _whole_s(timings: Timings) -> float:
    return timings.queue_s + timings.prepare_s + timings.wait_s + timings.compute_s


def item_limits(gateway: Gateway, card: Card) -> ItemLimits:
    """The limits this gateway was set to, for what the model takes."""
    settings = gateway.settings
    media_bytes = settings.max_media_bytes if card.takes_media else None
    return ItemLimits(settings.max_items, settings.max_item_bytes, media_bytes)


async def read_body(gateway: Gateway, request: Request) -> Buffer:
    """The request's body, within its deadline and the limit. Raises as `Request.body`."""
    settings = gateway.settings
    asked = request.text_header(b"x-request-timeout")
    bulk = asked_class(request) == "bulk"
    default_s = settings.max_timeout_s if bulk else settings.timeout_s
    request.timeout_s = asked_timeout_s(asked, default_s, settings.max_timeout_s)
    return await request.body(settings.max_body_bytes, request.timeout_s, gateway.bodies)


async def embed(
    gateway: Gateway,
    request: Request,
    card: Card,
    params: EncodeParams,
    encoding: Encoding,
    items: list[Buffer],
) -> Answers:
    """Queue the items and wait for their answers. Raises as `Inflight.ask` does.

    `items` may view the body, and nothing else should any more: large ones are let go early.
    """
    request.model, request.items = card.name, len(items)
    job = Job(
        key=request.key,
        card=card,
        answer=encoded_size(params, task_of(card)),
        params=params,
        encoding=encoding,
        items=items,
        timeout_s=request.left_s(time.perf_counter()),
        standing=standing_of(request),
        trace=request.trace.traceparent,
        let_go=partial(request.let_go, gateway.bodies),
        keep=request.keep,
    )
    answers = Answers(await gateway.inflight.ask(job, request.when_gone))
    request.timings = answers.slowest
    gateway.metrics.answered(card.name, len(items), answers.tokens)
    return answers

"""Turns a checked request into answers: what the routes of all tasks have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec

from shoal.catalog.card import Card, Input
from shoal.errors import DeadLettered, ErrorInfo, InvalidRequest
from shoal.gateway.body import ItemLimits
from shoal.gateway.counts import counts_of
from shoal.gateway.envelope import Envelope, error_response, item_failed
from shoal.gateway.feed import Feed
from shoal.gateway.headers import asked_timeout_s
from shoal.gateway.job import Job
from shoal.gateway.replies import Answer, ItemAnswer, items_of
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway
from shoal.gateway.standing import asked_class, standing_of
from shoal.tasks.answering import answer_size
from shoal.tasks.reading import reading_of
from shoal.values import Encoding, GenerateParams, Params, Task
from shoal.wire.codec import Buffer
from shoal.wire.queue import Timings

#: Models named to someone who asked for a task of a model that lacks it.
SHOWN_MODELS = 5


class Question(msgspec.Struct, frozen=True):
    """What is asked of a model.

    Attributes:
        items: may view the body, and nothing else should any more: large ones are let go early.
        seeds: one an item, of texts that are generated.
    """

    card: Card
    params: Params
    encoding: Encoding
    items: list[Buffer]
    seeds: tuple[int, ...] = ()


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

    async def every(self) -> list[ItemAnswer]:
        """All items, with a pause behind each unit's."""
        items: list[ItemAnswer] = []
        for unit in self.units():
            items += unit
            await asyncio.sleep(0)
        return items

    @property
    def all_failed(self) -> bool:
        return all(
            answer.reply.error is not None or len(answer.reply.errors) == answer.span.items
            for answer in self._answers
        )

    def first_failure(self) -> tuple[int | None, ErrorInfo] | None:
        """Position and error of the first item that failed; None if none did.

        The position is None where no item is at fault: the model is, or a parameter that the error
        names.
        """
        for answer in self._answers:
            start, reply = answer.span.start, answer.reply
            if reply.error is not None:
                crashed = reply.error.code == DeadLettered.code
                return start if crashed else None, reply.error
            if reply.errors:
                first = min(reply.errors)
                error = reply.errors[first]
                return (start + first if error.param is None else None), error
        return None


def _whole_s(timings: Timings) -> float:
    return timings.queue_s + timings.prepare_s + timings.wait_s + timings.compute_s


def card_for(gateway: Gateway, model: str | None, task: Task, heads: tuple[str, ...] = ()) -> Card:
    """The card of this name or alias, for a task; without a name, of the one model that does it.

    `heads`: the kinds of extracting that will do, where not all do.

    Raises:
        UnknownModel: there is none.
        InvalidRequest: it does other tasks; the message names them, and models that do this one.
            Or no name was given, and not one model does the task.
    """
    if not model:
        return gateway.catalog.card(only_model(gateway, task, heads))
    card = gateway.catalog.card(model)
    if not _does(card, task, heads):
        others = able(gateway, task, heads)[:SHOWN_MODELS]
        offer = f"; ask one that does: {', '.join(others)}" if others else ""
        raise InvalidRequest(
            f"model '{card.name}' cannot {_called(task, heads)}: it does {_doing(card)}{offer}",
            param="model",
        )
    return card


def only_model(gateway: Gateway, task: Task | None = None, heads: tuple[str, ...] = ()) -> str:
    """The one model, or the one that does a task: of those that a worker knows, else of all.

    Raises:
        InvalidRequest: there is none, or more than one.
    """
    every = able(gateway, task, heads)
    known = gateway.fleet.states()
    names = [name for name in every if name in known] or every
    if len(names) != 1:
        what = f"a model that can {_called(task, heads)}" if task else "a model"
        offer = f"one of {', '.join(names[:SHOWN_MODELS])}" if names else "but there is none here"
        raise InvalidRequest(f"name {what}: {offer}", param="model")
    return names[0]


def able(gateway: Gateway, task: Task | None, heads: tuple[str, ...] = ()) -> list[str]:
    """Models that do a task; those that a worker knows come first."""
    known = gateway.fleet.states()
    cards = gateway.catalog.cards()
    names = [card.name for card in cards if task is None or _does(card, task, heads)]
    return sorted(names, key=lambda name: name not in known)


def takers(gateway: Gateway, task: Task, kind: Input) -> list[str]:
    """Models that do a task with items of this kind, in the order of `able`; no more than are shown."""
    names = able(gateway, task)
    return [n for n in names if kind in gateway.catalog.card(n).inputs][:SHOWN_MODELS]


def _does(card: Card, task: Task, heads: tuple[str, ...]) -> bool:
    if task == "tokenize":  # no part of a model: whatever reads texts has a tokenizer
        return "text" in card.inputs
    if getattr(card.tasks, task, None) is None:
        return False
    return not heads or (card.tasks.extract is not None and card.tasks.extract.head in heads)


def _called(task: Task, heads: tuple[str, ...]) -> str:
    return f"{task} ({', '.join(heads)})" if heads else task


def _doing(card: Card) -> str:
    extract = card.tasks.extract
    names = [
        f"{name} ({extract.head})" if name == "extract" and extract is not None else name
        for name in card.tasks.names()
    ]
    return ", ".join(names) or "nothing"


def item_limits(gateway: Gateway, card: Card) -> ItemLimits:
    """The limits this gateway was set to, for what the model takes."""
    settings = gateway.settings
    media_bytes = settings.max_media_bytes if card.takes_media else None
    return ItemLimits(settings.max_items, settings.max_item_bytes, media_bytes)


def refusal(
    answers: Answers, named: str, envelope: Envelope, option: Callable[[str], str] = str
) -> Response | None:
    """The response of a request that fails with its first bad item; None if none is bad.

    `named`: what the route calls an item, as ``input[{}]``; `option`: what it calls a parameter.
    """
    failure = answers.first_failure()
    if failure is None:
        return None
    position, error = failure
    if error.param is not None:
        error = msgspec.structs.replace(error, param=option(error.param))
    if position is None:
        return error_response(error, envelope)
    return item_failed(error, named.format(position), envelope)


async def read_body(gateway: Gateway, request: Request, default_s: float | None = None) -> Buffer:
    """The request's body, within its deadline and the limit. Raises as `Request.body`.

    `default_s`: of the deadline, where the request names none; None: the setting's.
    """
    settings = gateway.settings
    asked = request.text_header(b"x-request-timeout")
    bulk = asked_class(request) == "bulk"
    default_s = settings.max_timeout_s if bulk else default_s or settings.timeout_s
    request.timeout_s = asked_timeout_s(asked, default_s, settings.max_timeout_s)
    return await request.body(settings.max_body_bytes, request.timeout_s, gateway.bodies)


async def ask(gateway: Gateway, request: Request, question: Question) -> Answers:
    """Queue the items and wait for their answers. Raises as `Inflight.ask` does."""
    job = _job(gateway, request, question)
    answers = Answers(await gateway.inflight.ask(job, request.when_gone))
    _told(gateway, request, question, answers)
    return answers


@contextmanager
def stream(gateway: Gateway, request: Request, question: Question) -> Iterator[Feed]:
    """Queue the items; what comes of them comes as it is generated. Raises as `Inflight.stream`."""
    job = _job(gateway, request, question)
    with gateway.inflight.stream(job, request.when_gone) as feed:
        yield feed
        _told(gateway, request, question, Answers(feed.answers))


def _told(gateway: Gateway, request: Request, question: Question, answers: Answers) -> None:
    request.timings, tokens = answers.slowest, answers.tokens
    if isinstance(question.params, GenerateParams):
        good = (item for unit in answers.units() for item in unit if item.error is None)
        tokens += sum(counts_of(item).new_tokens for item in good)
    gateway.metrics.answered(request.model, answers.items, tokens)


def _job(gateway: Gateway, request: Request, question: Question) -> Job:
    card, params, items = question.card, question.params, question.items
    request.model, request.items = card.name, len(items)
    return Job(
        key=request.key,
        card=card,
        answer=answer_size(params, card.tasks, card.max_tokens),
        params=params,
        encoding=question.encoding,
        items=items,
        timeout_s=request.left_s(time.perf_counter()),
        reading=reading_of(params, card.tasks),
        standing=standing_of(request),
        seeds=question.seeds,
        trace=request.trace.traceparent,
        let_go=partial(request.let_go, gateway.bodies),
        keep=request.keep,
    )

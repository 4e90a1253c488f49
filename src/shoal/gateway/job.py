"""What a gateway holds of a request from its units' cutting to its answer. Values; decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from shoal.catalog.card import Card
from shoal.gateway.feed import Feed
from shoal.gateway.replies import Answer
from shoal.gateway.standing import Standing
from shoal.gateway.units import Span
from shoal.tasks.answering import AnswerSize
from shoal.tasks.reading import ALONE, Reading
from shoal.values import Encoding, Params
from shoal.wire.codec import Buffer
from shoal.wire.queue import Payload


class Job(msgspec.Struct, frozen=True):
    """A checked request, ready to be cut and queued.

    Attributes:
        items: still in `encoding`, most of them views of the body; what was uploaded becomes empty.
        reading: how its items are read.
        seeds: one an item, of texts that are generated.
        let_go: called once nothing views the body any more, if that is before the answer.
        keep: called where the body will be viewed after the answer too; `let_go` follows.
    """

    key: str
    card: Card
    answer: AnswerSize
    params: Params
    encoding: Encoding
    items: list[Buffer]
    timeout_s: float
    reading: Reading = ALONE
    standing: Standing = Standing()
    seeds: tuple[int, ...] = ()
    trace: str | None = None
    let_go: Callable[[], None] = lambda: None
    keep: Callable[[], None] = lambda: None


class Call:
    """A request that somebody waits for.

    Attributes:
        payloads: position -> where an item lies that is too large for the queue.
        uploads: key -> waiting for its turn; on its way there (`begun`); or done.
        sequences: unit -> its place on its stream, once the broker told.
        feed: where what comes of its items goes, if its caller wants that before the end.
    """

    __slots__ = (
        "answers",
        "begun",
        "deadline",
        "done",
        "feed",
        "job",
        "payloads",
        "sequences",
        "spans",
        "timer",
        "uploads",
    )

    def __init__(
        self, job: Job, spans: dict[str, Span], deadline: float, feed: Feed | None = None
    ) -> None:
        self.job = job
        self.feed = feed
        self.spans = spans
        self.deadline = deadline
        self.answers: dict[str, Answer] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None
        self.payloads: dict[int, Payload] = {}
        self.uploads: dict[str, asyncio.Task[None]] = {}
        self.begun: set[str] = set()
        self.sequences: dict[str, int] = {}

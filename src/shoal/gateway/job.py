"""What a gateway holds of a request from its units' cutting to its answer. Values; decides nothing."""

from __future__ import annotations

import asyncio

import msgspec

from shoal.catalog.card import Card
from shoal.gateway.replies import Answer
from shoal.gateway.units import Span
from shoal.values import EncodeParams, Encoding


class Job(msgspec.Struct, frozen=True):
    """A checked request, ready to be cut and queued. `items` are still in `encoding`."""

    key: str
    card: Card
    dim: int
    params: EncodeParams
    encoding: Encoding
    items: list[bytes]
    timeout_s: float
    tenant: str = ""
    trace: str | None = None


class Call:
    """A request that somebody waits for."""

    __slots__ = ("answers", "deadline", "done", "job", "spans", "timer", "watcher")

    def __init__(self, job: Job, spans: dict[str, Span], deadline: float) -> None:
        self.job = job
        self.spans = spans
        self.deadline = deadline
        self.answers: dict[str, Answer] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None
        self.watcher: asyncio.Task[None] | None = None

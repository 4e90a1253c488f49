"""The sides of a comparison: each takes the same requests and tells how long they took.

A side is a server under load, or a library in a process of its own.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np

from shoal.bench.apis import Api, Vectors
from shoal.bench.inprocess import Calls, Encoded
from shoal.bench.load import Generator, Load, Target, percentile
from shoal.bench.piped import Helper

#: Batch sizes among which the in-process rival gets its best; it sorts by length itself.
BATCH_SIZES = (8, 16, 32, 64, 128)


class Task(msgspec.Struct, frozen=True):
    """Requests of texts, so many at once."""

    requests: list[list[str]]
    at_once: int

    @property
    def texts(self) -> int:
        return sum(map(len, self.requests))


class Answer(msgspec.Struct, frozen=True):
    """`vectors`: [texts of all requests, dim], or None where a request failed."""

    seconds: float
    p50_ms: float
    p99_ms: float
    errors: int
    vectors: Vectors | None


class Side(Protocol):
    """Who is measured. `pid`: its process, with whatever runs below it."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def prepare(self, task: Task) -> None:
        """Warm up on a task of the kind that follows."""

    def run(self, task: Task) -> Answer: ...


class Server:
    """A server that is asked over HTTP by a load generator."""

    def __init__(self, name: str, pid: int, address: Target, api: Api, load: Generator) -> None:
        self.name, self.pid = name, pid
        self._address = address
        self._api = api
        self._load = load

    def prepare(self, task: Task) -> None:
        self.run(task)

    def run(self, task: Task) -> Answer:
        requests = [*map(self._api.request, task.requests)]
        at_once = min(task.at_once, len(requests))
        outcome = self._load.ask(Load([self._address], requests, at_once, keep=True))
        errors = sum(outcome.errors.values())
        vectors = None if errors else np.concatenate([*map(self._api.vectors, outcome.bodies)])
        p50_ms, p99_ms = outcome.answered_ms(0.5), outcome.answered_ms(0.99)
        return Answer(outcome.seconds, p50_ms, p99_ms, errors, vectors)


class InProcess:
    """A library; `whole`: one call with all texts instead of one call a request."""

    def __init__(self, helper: Helper[Calls, Encoded], *, whole: bool) -> None:
        self.name = f"in-process, {'one call with all' if whole else 'a call a request'}"
        self.pid = helper.pid
        self.batch_size = BATCH_SIZES[0]
        self._helper = helper
        self._whole = whole

    def prepare(self, task: Task) -> None:
        """Find the best batch size for tasks like this one."""
        self.run(task)
        seconds: dict[int, float] = {}
        for size in self._sizes(task):
            self.batch_size = size
            seconds[size] = self.run(task).seconds
        self.batch_size = min(seconds, key=seconds.__getitem__)

    def _sizes(self, task: Task) -> tuple[int, ...]:
        most = task.texts if self._whole else max(map(len, task.requests))
        return tuple(size for size in BATCH_SIZES if size <= most) or BATCH_SIZES[:1]

    def run(self, task: Task) -> Answer:
        calls = task.requests
        if self._whole:
            calls = [[text for texts in calls for text in texts]]
        encoded = self._helper.ask(Calls(calls, self.batch_size))
        ordered = sorted(encoded.seconds)
        return Answer(
            sum(ordered),
            percentile(ordered, 0.50) * 1e3,
            percentile(ordered, 0.99) * 1e3,
            0,
            np.frombuffer(encoded.vectors, np.float32).reshape(-1, encoded.dim),
        )

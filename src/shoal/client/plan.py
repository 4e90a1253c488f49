"""A call of a task before anything of it is looked at or sent; the same for every client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from shoal.client.items import Givens
from shoal.client.job import Call, Job, Report
from shoal.values import Task

T = TypeVar("T")
R = TypeVar("R")


def _all(told: T) -> T:
    return told


class Plan(msgspec.Struct, Generic[R], frozen=True):
    """What a client does for a call: performs the job of it, and takes what the caller gets.

    Attributes:
        progress: show a bar on stderr, or call a function with (answered, in all).
        make: looks at options and items. Raises `InvalidRequest`.
        slow: items that it may be long about: files are read, images written.
        strict: the first item that gets an error ends the call.
        take: what the caller gets of the job's result.
    """

    task: Task
    progress: bool | Report
    make: Callable[[Call], Job[Any, Any]]
    slow: Givens = ()
    strict: bool = False
    take: Callable[[Any], R] = _all

    def strictly(self, take: Callable[[R], T]) -> Plan[T]:
        """The same call, of which every item has an answer, and of these the part that is wanted."""
        return Plan(self.task, self.progress, self.make, self.slow, True, take)

    def job(self, report: Report) -> Job[Any, Any]:
        return self.make(Call(report, self.strict))

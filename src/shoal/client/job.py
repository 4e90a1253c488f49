"""One call about any number of items as a row of exchanges, and what came of them.

Decides which part is asked next and when the call has failed. A shell takes exchanges until there
are no more, performs up to `in_flight` of them at a time, and settles each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from shoal.client.items import Item, Limits, cut
from shoal.client.protocol import Exchange, Policy
from shoal.client.question import Answers, Asked, ItemsQuestion
from shoal.client.result import Collector
from shoal.errors import ShoalError

T = TypeVar("T")
R = TypeVar("R")

#: Called with (items answered, items in all) after each answered request.
Report = Callable[[int, int], None]


class Call(msgspec.Struct, frozen=True):
    """How a call's answers are taken.

    Attributes:
        strict: the first item that gets an error ends the call.
    """

    report: Report = lambda done, total: None
    strict: bool = True


class Job(Generic[T, R]):
    """Gives out exchanges in order and takes their answers in any order; not thread-safe."""

    def __init__(
        self,
        asked: Asked[T],
        items: list[Item],
        collector: Collector[T, R],
        call: Call,
        policy: Policy,
        limits: Limits,
    ) -> None:
        self._asked = asked
        self._items = items
        self._collector = collector
        self._call = call
        self._policy = policy
        self._parts = list(cut(items, limits))
        self._begun = 0
        self.in_flight = min(len(self._parts), limits.in_flight)

    def next(self) -> Exchange[Answers[T]] | None:
        """The next exchange to perform; None once all are given out."""
        if self._begun == len(self._parts):
            return None
        part = self._parts[self._begun]
        self._begun += 1
        question = ItemsQuestion(self._asked, self._items, part, strict=self._call.strict)
        return Exchange(question, self._policy)

    def settle(self, answers: Answers[T]) -> None:
        """Take in what one exchange gave. Raises an item's error if the call is strict."""
        if self._call.strict:
            _raise_first(answers)
        self._collector.add(answers)
        self._call.report(self._collector.done, len(self._items))

    def result(self) -> R:
        """Everything, once every exchange is settled."""
        return self._collector.result()


def _raise_first(answers: Answers[T]) -> None:
    for answer in answers.values():
        if isinstance(answer, ShoalError):
            raise answer

"""Joins the answers of many requests, in the caller's order.

Knows positions, counts and errors; what an answer is, is a task's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.client.question import Answers
from shoal.errors import ShoalError

T = TypeVar("T")
R = TypeVar("R")


class Told(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What every call about n items tells beside its answers.

    Attributes:
        positions: int64 [n_ok], the item that each answer belongs to.
        tokens: int64 [n], tokens computed for each item; 0 where it failed.
        truncated: bool [n], whether the item was cut to what the model takes.
        errors: position of an item -> why it has no answer.
    """

    model: str
    positions: NDArray[np.int64]
    tokens: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    errors: dict[int, ShoalError]


class Collector(ABC, Generic[T, R]):
    """Takes answers in any order of requests; `place` keeps one, so that responses can be freed."""

    def __init__(self, model: str, count: int) -> None:
        self._model = model
        self.have = np.zeros(count, np.bool_)
        self._tokens = np.zeros(count, np.int64)
        self._truncated = np.zeros(count, np.bool_)
        self._errors: dict[int, ShoalError] = {}
        self.done = 0

    def add(self, answers: Answers[T]) -> None:
        """Take in the answers of one request. Raises as `place`."""
        self.done += len(answers)
        for position, answer in answers.items():
            if isinstance(answer, ShoalError):
                self._errors[position] = answer
                continue
            self.place(position, answer.value)
            self.have[position] = True
            self._tokens[position] = answer.tokens
            self._truncated[position] = answer.truncated

    @abstractmethod
    def place(self, position: int, value: T) -> None:
        """Keep a copy. Raises `ProtocolError` if answers differ in form."""

    @abstractmethod
    def result(self) -> R:
        """All of it, in the caller's order."""

    def told(self) -> Told:
        return Told(
            model=self._model,
            positions=np.flatnonzero(self.have).astype(np.int64),
            tokens=self._tokens,
            truncated=self._truncated,
            errors=dict(sorted(self._errors.items())),
        )

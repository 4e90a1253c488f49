"""All checks in their order, and what becomes of each: it passed, it failed, or it says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from shoal.errors import ProtocolError
from shoal.runtimes.check import adapters, batches, ending, models, saying, sequences
from shoal.runtimes.check.subject import Subject
from shoal.runtimes.check.verdict import Faulty, NotApplicable

#: A busy machine that imports a large library; no check takes as long where all is well.
LIMIT_S = 60.0

Verdict = Literal["passed", "failed", "not applicable"]


class Result(msgspec.Struct, frozen=True):
    """What one check came to. `why`: the fault, or what is missing; empty where it passed."""

    check: str
    verdict: Verdict
    seconds: float
    why: str = ""


class Check(msgspec.Struct, frozen=True):
    """Something that every runtime does. `perform` raises `Faulty` or `NotApplicable`."""

    perform: Callable[[Subject], None]

    @property
    def name(self) -> str:
        return self.perform.__name__.replace("_", " ")

    @property
    def about(self) -> str:
        """What the runtime does, in a sentence."""
        return self.perform.__doc__ or ""

    def on(self, subject: Subject) -> Result:
        """Within the subject's limit; what it leaves behind is looked at, too."""
        began = time.perf_counter()
        verdict, why = _outcome(self, subject)
        return Result(self.name, verdict, time.perf_counter() - began, why)


def _outcome(check: Check, subject: Subject) -> tuple[Verdict, str]:
    subject.limit.begin()
    try:
        check.perform(subject)
        subject.settle()
    except NotApplicable as error:
        return "not applicable", error.message
    except (Faulty, ProtocolError) as error:
        subject.discard()
        return "failed", error.message
    return "passed", ""


_PARTS: Sequence[Sequence[Callable[[Subject], None]]] = (
    saying.CHECKS,
    models.CHECKS,
    batches.CHECKS,
    sequences.CHECKS,
    adapters.CHECKS,
    ending.CHECKS,
)
CHECKS = [Check(perform) for part in _PARTS for perform in part]


def performed(subject: Subject) -> Iterator[Result]:
    """Each of them in turn; a runtime that does not even say hello is asked nothing more."""
    for check in CHECKS:
        yield check.on(subject)
        if not subject.greeted:
            return

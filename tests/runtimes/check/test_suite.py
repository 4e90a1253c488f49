"""Each check finds what it is there to find, in a runtime that has just this fault."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.runtimes.check.samples import fake
from shoal.runtimes.check.subject import Subject
from shoal.runtimes.check.suite import CHECKS, Result, performed
from shoal.runtimes.spec import RuntimeSpec

from . import rogue

#: Most that a fault takes which shows as silence.
LIMIT_S = 4.0
BY_NAME = {check.name: check for check in CHECKS}


@contextmanager
def subject_of(name: str, **sample: Any) -> Iterator[Subject]:
    command = (sys.executable, str(Path(rogue.__file__)), name)
    subject = Subject(RuntimeSpec("fake", command=command), LIMIT_S)
    subject.try_with(msgspec.structs.replace(fake(Path()), **sample))
    yield subject
    subject.discard()


def outcome(fault: Callable[..., Any], check: str, **sample: Any) -> Result:
    with subject_of(fault.__name__, **sample) as subject:
        return BY_NAME[check].on(subject)


FOUND = [*rogue.FINDS.items(), *rogue.MORE]


@pytest.mark.parametrize(("fault", "check"), FOUND, ids=lambda of: getattr(of, "__name__", of))
def test_a_fault_is_found(fault: Callable[..., Any], check: str) -> None:
    result = outcome(fault, check, adapter="/own")
    if result.verdict == "passed":  # a signal that came between two batches, on a busy machine
        result = outcome(fault, check, adapter="/own")
    assert result.verdict == "failed", result
    assert result.why
    assert result.seconds < 2 * LIMIT_S


def test_every_check_finds_something() -> None:
    assert {check for _, check in FOUND} == BY_NAME.keys()


def test_adapters_are_checked_where_they_are_taken() -> None:
    assert outcome(rogue.Adapts, "adapters", adapter="/own").verdict == "passed"
    result = outcome(rogue.Adapts, "adapters where none are taken")
    assert (result.verdict, result.why) == ("not applicable", "it takes adapters")
    result = outcome(rogue.Adapts, "adapters")
    assert (result.verdict, result.why) == ("not applicable", "there is no adapter to try it with")


def test_without_a_model_the_rest_is_checked() -> None:
    subject = Subject(RuntimeSpec("fake"), LIMIT_S)
    verdicts = {name: BY_NAME[name].on(subject).verdict for name in ("hello", "stats", "bye")}
    subject.discard()
    assert verdicts == {"hello": "passed", "stats": "not applicable", "bye": "passed"}


def test_one_that_does_not_start_is_asked_nothing_more() -> None:
    command = (sys.executable, "-c", "print('no device'); raise SystemExit(3)")
    subject = Subject(RuntimeSpec("fake", command=command), LIMIT_S)
    [result] = performed(subject)
    assert result.verdict == "failed"
    assert result.why == "it ended before it said hello, with exit status 3\nno device"

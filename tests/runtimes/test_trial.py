"""Grammars that would be compiled for minutes: refused in time, and nobody waits for them."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from llguidance import LLMatcher

from shoal.errors import InvalidRequest
from shoal.runtimes.grammar import Grammars
from shoal.runtimes.trial import Trials
from tests.runtimes import letters

#: Each pattern is compared with each: half a minute.
PATTERNS = json.dumps({"patternProperties": {f"^x{n}$": {} for n in range(260)}})
LONG = json.dumps({"enum": [f"a word, number {n}" for n in range(200)]})


@pytest.fixture
def grammars(tmp_path: Path) -> Iterator[Grammars]:
    letters.save(tmp_path)
    grammars = Grammars(tmp_path / "tokenizer.json", 300, Trials(0.5))
    yield grammars
    grammars.close()


def test_one_that_takes_too_long_is_refused_and_the_others_do_not_wait_for_it(
    grammars: Grammars,
) -> None:
    began = time.monotonic()
    slow, same = grammars.of("json_schema", PATTERNS), grammars.of("json_schema", PATTERNS)
    assert grammars.of("json_object", "").result(30).allowed([letters.END]).any()
    assert not slow.done()
    with pytest.raises(InvalidRequest, match=r"takes more than 0\.5 s; ask for fewer properties"):
        slow.result(60)
    tried = time.monotonic() - began
    with pytest.raises(InvalidRequest):
        same.result(tried / 2)
    with pytest.raises(InvalidRequest):
        grammars.of("json_schema", PATTERNS).result(0)


def test_long_ones_that_compile_in_time_are_kept_also_after_one_that_did_not(
    grammars: Grammars,
) -> None:
    with pytest.raises(InvalidRequest):
        grammars.of("json_schema", PATTERNS).result(60)
    for _ in range(2):
        assert grammars.of("json_schema", LONG).result(60).allowed([letters.END]).any()


def test_a_process_that_ended_meanwhile_is_begun_anew() -> None:
    trials = Trials()
    trials.check("{}")
    process = trials._process
    assert process is not None
    process.terminate()
    process.wait()
    trials.check("{}")
    assert trials.end() == -signal.SIGKILL


def test_what_ends_the_process_otherwise_is_told() -> None:
    trials = Trials()
    trials.check("{}")
    process = trials._process
    assert process is not None
    threading.Timer(0.3, process.terminate).start()
    with pytest.raises(InvalidRequest, match="ended with status -15"):
        trials.check(LLMatcher.grammar_from_json_schema(PATTERNS))

"""More real models than fit in memory, asked in turn by the example's script: answers, bytes, reloads."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import pytest

from shoal.bench.packing.history import read
from shoal.bench.serving import Serving
from shoal.catalog.card import Memory
from shoal.catalog.choice import chosen
from shoal.catalog.parse import to_yaml
from shoal.catalog.resolve import Catalog
from shoal.runtimes.packages import missing
from shoal.worker.devices import kinds_of

SCRIPT = Path(__file__).parents[2] / "examples" / "fleet" / "ask.py"
#: Together 966 to 1,052 MB, by the kind of CPU; the reader alone needs 569 of them, in a runtime of its own.
MODELS = [
    "all-MiniLM-L6-v2",
    "splade-tiny",
    "ms-marco-MiniLM-L-12-v2",
    "rampart-pii",
    "efficientnet-lite0",
    "pp-ocrv6-small",
]
BUDGET = 600_000_000
ANSWERS = {
    "dense vectors": "A drill has to be back after three days.",
    "sparse vectors": "A drill has to be back after three days.",
    "reranking": "A drill has to be back after three days.",
    "entities": "Mary GIVEN_NAME, Jones SURNAME, 12 BUILDING_NUMBER, Mill Lane STREET_NAME",
    "image labels": "traffic light, crossword puzzle, analog clock",
    "image vectors": "like the traffic light",
    "text in pictures": "Tool library / Drill, 3 days 12.00 / Paint 4.50 / Total 16.50",
}
LINE = re.compile(
    r"(?P<model>\S+) +(?P<task>\w+( \w+)*) +(?P<state>available|resident|loading) +"
    r"(?P<ms>\d+) +(?P<items>\d+) +(?P<tokens>\d+)  (?P<answer>.+)"
)
TOLD = re.compile(r"(\d+) loads, (\d+) evictions; at most (\d+) MB held of (\d+) MB")


class Ledger(NamedTuple):
    """`rounds`: task -> answer, a round each."""

    rounds: list[dict[str, str]]
    loads: int
    evictions: int
    most_mb: int
    budget_mb: int


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving([], memory_bytes=BUDGET, log_format="json") as running:
        yield running


@pytest.fixture(scope="module")
def ledger(serving: Serving) -> Ledger:
    metrics = f"{serving.worker_url}/metrics"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--url", serving.url, "--metrics", metrics, "--only", *MODELS],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr + serving.log_end()
    rounds = [
        {found["task"]: found["answer"] for found in map(LINE.match, part.splitlines()) if found}
        for part in done.stdout.split("Round ")[1:]
    ]
    told = TOLD.search(done.stdout)
    assert told
    return Ledger(rounds, *map(int, told.groups()))


def test_every_model_answers_what_it_should(ledger: Ledger) -> None:
    first, second = ledger.rounds
    assert first.keys() == ANSWERS.keys()
    assert {task: ANSWERS[task] in answer for task, answer in first.items()} == dict.fromkeys(
        ANSWERS, True
    )
    assert second == first


def test_they_take_turns_within_the_budget(ledger: Ledger) -> None:
    assert ledger.budget_mb == BUDGET // 10**6
    assert ledger.most_mb <= ledger.budget_mb
    assert ledger.evictions >= 1
    assert ledger.loads > len(MODELS)  # one at least came back


def test_none_holds_more_than_its_card_says(serving: Serving, ledger: Ledger) -> None:
    catalog = Catalog.load()
    loaded = [event for event in read(serving.log()) if event.event == "loaded"]
    assert len(loaded) == ledger.loads
    for event in loaded:
        card = catalog.card(event.model)
        said_mb = (
            chosen(card, kinds_of("cpu", None), missing).profile.held_mb or card.memory.held_mb
        )
        assert said_mb is not None
        assert said_mb / 2 < event.mb <= said_mb, event


def test_the_budget_holds_while_a_model_that_nobody_measured_is_loaded_first() -> None:
    """131 MB of halves on disk, and 308 MB once they are here: beside the other one it is too much."""
    known, halves = (Catalog.load().card(name) for name in (MODELS[0], "gector-distilbert"))
    unknown = msgspec.structs.replace(halves, name="unknown", aliases=[], memory=Memory())
    budget = 340_000_000
    cards = {"unknown": to_yaml(unknown)}
    with Serving([], cards=cards, memory_bytes=budget, log_format="json") as running:
        for name, task in ((known.name, "encode"), ("unknown", "extract")):
            url = f"{running.url}/v1/{task}/{name}"
            answer = httpx.post(url, json={"items": ["a fish in the sea"]}, timeout=60.0)
            assert answer.status_code == 200, answer.text
        metrics = httpx.get(f"{running.worker_url}/metrics").text
    found = re.search(r'lane_bytes\{[^}]*what="most"[^}]*\} (\S+)', metrics)
    assert found, metrics
    assert 250_000_000 < float(found[1]) <= budget

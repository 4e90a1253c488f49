"""Memory that runs out, or does not come back, seen by a caller: an answer, later."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from shoal.bench.cards import timed
from shoal.bench.packing.history import History, read
from shoal.bench.serving import Serving

pytestmark = pytest.mark.slow

MB = 10**6
DEADLINE_S = 60.0


def serving(folder: Path, cards: dict[str, dict[str, Any]], *flags: str) -> Serving:
    """Two gateways and a worker whose lane is one CPU thread; no model is loaded at the start."""
    for name, options in cards.items():
        (folder / f"{name}.yaml").write_text(timed(name, **options))
    flags += ("--gateways", "2", "--lanes", "cpu", "--threads", "1", "--log-format", "json")
    return Serving([next(iter(cards)), "--catalog", str(folder), *flags])


def encode(one: Serving, model: str, items: int = 1) -> None:
    """Every item is answered."""
    texts = [f"text {number}" for number in range(items)]
    url = f"{one.url}/v1/encode/{model}"
    answer = httpx.post(url, json={"items": texts}, timeout=DEADLINE_S)
    assert answer.status_code == 200, answer.text
    assert all(len(item["dense"]) == 8 for item in answer.json()["items"])


def test_a_runtime_that_leaks_is_started_anew_and_nobody_notices(tmp_path: Path) -> None:
    model = {"bytes": 60 * MB, "leaks": 50 * MB, "holds": True}
    cards = {"pinned": {"bytes": MB}, "one": model, "two": model}
    with serving(tmp_path, cards, "--memory-bytes", str(100 * MB)) as one:
        deadline = time.monotonic() + DEADLINE_S
        for name in itertools.cycle(["one", "two"]):
            encode(one, name)
            if "runtime_recycled" in one.log():
                break
            assert time.monotonic() < deadline, one.log_end()
        for name in ("pinned", "one", "two"):
            encode(one, name)
        history = History(read(one.log()))
    assert history.count("runtime_recycled") == 1
    assert history.count("runtime_died") == 0


def test_a_device_smaller_than_its_budget_makes_room(tmp_path: Path) -> None:
    model = {"bytes": 60 * MB, "device_bytes": 100 * MB}
    cards = {"pinned": {"bytes": MB, "device_bytes": 100 * MB}, "one": model, "two": model}
    with serving(tmp_path, cards, "--memory-bytes", str(1000 * MB)) as one:
        for name in ("one", "two", "pinned", "one"):
            encode(one, name)
        history = History(read(one.log()))
    assert history.count("evicting") >= 2
    assert history.count("evicting", "pinned") == 0


def test_batches_too_large_for_the_device_get_smaller(tmp_path: Path) -> None:
    with serving(tmp_path, {"small": {"max_items": 4}}) as one:
        encode(one, "small", 64)
        encode(one, "small", 1)

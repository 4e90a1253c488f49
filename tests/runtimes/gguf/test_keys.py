"""Whose keys are kept, in a real store of llama.cpp's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog

pytest.importorskip("xllamacpp")

from shoal.runtimes.gguf.keys import Keys
from shoal.runtimes.gguf.library import Context, Row

PLACES, MOST_KEPT = 256, 64

Run = Callable[[list[int]], int]


@pytest.fixture(scope="module")
def context() -> Iterator[Context]:
    folder = fetch(Catalog.load().card("smollm2-135m-instruct"), cache_dir=None, offline=False)
    (path,) = folder.glob("*.gguf")
    made = Context(path, sequences=2, places=PLACES, rows=PLACES, threads=1, gpu=False)
    yield made
    made.close()


@pytest.fixture
def keys(context: Context) -> Keys:
    return Keys(context, 2, PLACES, MOST_KEPT)


@pytest.fixture
def run(context: Context, keys: Keys) -> Run:
    """Computes tokens from first to last; how many of them were computed before."""

    def run(tokens: list[int]) -> int:
        taken = keys.take(tokens, len(tokens))
        assert taken is not None, "there is room"
        number, shared = taken
        context.compute(_rows(tokens, shared, number))
        keys.leave(number, tokens)
        return shared

    return run


def _rows(tokens: list[int], start: int, number: int) -> list[Row]:
    last = len(tokens) - 1
    return [Row(tokens[at], at, number, at == last) for at in range(start, last + 1)]


def test_what_was_kept_gives_the_same_logits(context: Context, keys: Keys, run: Run) -> None:
    tokens = list(range(1000, 1040))
    other = [*tokens[:30], 7]
    assert run(tokens) == 0
    taken = keys.take(other, len(other))
    assert taken is not None
    number, shared = taken
    assert shared == 30
    context.compute(_rows(other, shared, number))
    again = context.logits(0).copy()
    keys.leave(number, [])
    context.compute(_rows(other, 0, number))
    anew = context.logits(30)
    context.forget(number)
    assert int(anew.argmax()) == int(again.argmax())
    assert float(np.abs(anew - again).max()) < 0.5  # rows of other numbers are rounded otherwise


def test_the_one_that_was_used_longest_ago_goes_first(run: Run) -> None:
    first, second, third = ([base] * 30 for base in (100, 200, 300))
    assert [run(first), run(second)] == [0, 0]
    assert run(first) == 29
    assert run(third) == 0
    assert run(second) == 0
    assert run(third) == 29


def test_of_a_long_one_the_beginning_is_kept(run: Run) -> None:
    tokens = list(range(1000, 1100))
    assert run(tokens) == 0
    assert run(tokens) == MOST_KEPT


def test_one_that_goes_on_takes_the_place_of_its_beginning(run: Run) -> None:
    """With both of them kept, there would be no room for the other."""
    other, tokens = [100] * 20, list(range(1000, 1040))
    assert [run(other), run(tokens[:25]), run(tokens)] == [0, 0, 25]
    assert run(other) == 19


def test_a_place_is_had_once(keys: Keys) -> None:
    assert keys.take([1], PLACES) is not None
    assert keys.take([1], 1) is None

"""Which runtime each card's model gets on a processor is what the page's rule makes of the page's figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from shoal.catalog.card import Card
from shoal.catalog.choice import Choice, chosen, is_graphed
from shoal.catalog.families import FAMILIES
from shoal.catalog.resolve import Catalog
from shoal.worker.devices import SPECIAL

PAGE = Path(__file__).parents[2] / "docs" / "runtimes.md"
#: By the MB that they add to an installation (docs/performance.md).
LIGHTEST_FIRST = ("candle", "gguf", "onnx", "torch")
FASTER, MOST_MOVED, LEAST_COSINE = 1.1, 0.002, 0.9999
#: Of a processor that has them all.
KINDS = (*SPECIAL, "cpu")
CARDS = {card.name: card for card in Catalog.load([]).cards()}


class Measured(NamedTuple):
    """A row of the table; `speed`: the median of its ratios; `moved`: of any score, or share of labels."""

    model: str
    profile: str
    runtime: str
    speed: float
    moved: float
    cosine: float

    @property
    def keeps_scores(self) -> bool:
        return abs(self.moved) <= MOST_MOVED

    @property
    def stands_in_line(self) -> bool:
        return self.keeps_scores and self.cosine >= LEAST_COSINE


def measured() -> Iterator[Measured]:
    part = PAGE.read_text().partition("### Speed and quality")[2].partition("\n#")[0]
    model = ""
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 9 or not cells[3].endswith("×"):
            continue
        model = cells[0] or model
        profile, computed, *ratios, _, moved, cosine = cells[1:]
        yield Measured(
            model,
            profile.strip("`"),
            computed.partition(",")[0],
            median(float(ratio.rstrip("×")) for ratio in ratios),
            float(re.sub("−", "-", moved)),
            float(cosine or 1),
        )


ROWS = list(measured())
MODELS = [*dict.fromkeys(row.model for row in ROWS)]


def by_rule(rows: list[Measured]) -> Measured:
    """The one that is chosen of those whose packages are installed."""
    able = [row for row in rows if row.stands_in_line]
    heavy = max((row.speed for row in able if row.runtime == "torch"), default=0.0)
    light = [row for row in able if row.runtime != "torch" and row.speed >= FASTER * heavy]
    if not light:
        return max((row for row in able if row.runtime == "torch"), key=lambda row: row.speed)
    if heavy:
        lightest = min(map(_weight, light))
        light = [row for row in light if _weight(row) == lightest]
    return max(light, key=lambda row: row.speed)


def _weight(row: Measured) -> int:
    return LIGHTEST_FIRST.index(row.runtime)


def choice(card: Card, *absent: str) -> Choice:
    return chosen(card, KINDS, lambda kind: "not here" if kind in absent else None)


def test_the_table_is_read() -> None:
    assert len(MODELS) == 4
    assert {(row.profile, row.speed) for row in ROWS if row.profile == "default"} == {
        ("default", 1.0)
    }
    assert len(ROWS) >= 15


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("absent", [(), ("torch",)], ids=["all", "without torch"])
def test_what_was_measured_decides(model: str, absent: tuple[str, ...]) -> None:
    rows = [row for row in ROWS if row.model == model and row.runtime not in absent]
    best = by_rule(rows)
    found = choice(CARDS[model], *absent)
    assert (found.name, found.profile.runtime) == (best.profile, best.runtime)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.model}-{row.profile}")
def test_a_profile_that_moves_scores_is_on_no_card(row: Measured) -> None:
    card = CARDS[row.model]
    assert row.profile == "default" or (row.profile in card.profiles) == row.keeps_scores
    suited = {name for name, _ in card.suited(*KINDS)}
    if not row.stands_in_line:
        assert row.profile not in suited


@pytest.mark.parametrize("name", CARDS)
def test_no_card_asks_for_more_than_it_needs(name: str) -> None:
    """What only one kind computes runs in that; what graphs are made of needs no torch."""
    card = CARDS[name]
    family = FAMILIES[card.family]
    with_all, without_torch = choice(card), choice(card, "torch")
    if family.graphs:
        assert with_all.profile.runtime == without_torch.profile.runtime == "onnx"
    elif name not in MODELS and "gguf" not in {one.runtime for one in card.profiles.values()}:
        assert with_all.profile.runtime == "torch"
    assert (without_torch.lacks is None) == (
        is_graphed(card) or bool({one.runtime for one in card.profiles.values()} - {"torch"})
    )
    in_8_bits = [one for one in card.profiles.values() if one.options.get("weights") == "int8"]
    assert not in_8_bits or name in MODELS, "8 bits, and nothing was measured"
    for one in in_8_bits:
        assert one.measured is not None


def test_texts_are_written_by_the_lighter_runtime_where_it_is_faster() -> None:
    """docs/performance.md: 2.3 times the tokens of one text."""
    card = CARDS["smollm2-135m-instruct"]
    assert choice(card).profile.runtime == "gguf"
    assert choice(card, "gguf").profile.runtime == "torch"

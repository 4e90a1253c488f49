"""The benchmark of heads, small: real models on both sides, whose answers are compared."""

from __future__ import annotations

import msgspec
import pytest

from shoal.bench import report
from shoal.bench.heads.lengths import EQUAL, MIXED
from shoal.bench.heads.measure import Measured, Plan, Result, Round, card_of, measure, table
from shoal.catalog.parse import parse_card
from shoal.catalog.resolve import Catalog

SMALL = ("splade-tiny", "rampart-pii")


@pytest.mark.timeout(180)
def test_both_sides_of_two_heads_give_the_same_answers() -> None:
    result = measure(Plan(SMALL, rounds=2, requests=2, texts=4), lambda _: None)
    assert result.problems == []
    assert [(m.model, m.lengths) for m in result.measured] == [
        (model, lengths) for model in SMALL for lengths in (EQUAL, MIXED)
    ]
    for measured in result.measured:
        assert len(measured.ratios) == 2
        assert 0 <= measured.our_padding < 0.2
        assert measured.padding >= 0
        assert all(r.texts_per_s > 0 for r in (*measured.ours, *measured.theirs))
    assert result.measured[1].padding > 0
    assert table(result).count("| splade-tiny") == 2


def measured(ratio: float, lengths: str = MIXED, **changes: object) -> Measured:
    ours, theirs = Round(ratio * 10, 1.0, 0), Round(10.0, 1.0, 0)
    made = Measured(
        "m", "dense", "SentenceTransformer", lengths, 32, 0.1, 0.0, 0.0, [ours], [theirs]
    )
    return msgspec.structs.replace(made, **changes)


def test_a_goal_that_is_missed_is_told_and_no_problem() -> None:
    result = Result(report.this_machine([]), Plan(), [measured(0.95, EQUAL), measured(0.95)])
    assert [m.met for m in result.measured] == [True, False]
    assert result.problems == []
    lines = table(result).splitlines()
    assert "| met " in lines[-2]
    assert "| missed " in lines[-1]


def test_answers_that_are_lost_or_other_ones_are_problems() -> None:
    lost = measured(1.0, ours=[Round(1.0, 1.0, 2)], apart=float("inf"))
    unlike = measured(1.0, apart=0.1)
    machine = report.this_machine([])
    assert [*map(str, Result(machine, Plan(), [lost, unlike]).problems)] == [
        "m, mixed lengths: requests were not answered",
        "m, mixed lengths: answers are 0.1 apart",
    ]
    assert Result(machine, Plan(dtype="bfloat16"), [unlike]).problems == []


def test_a_card_computes_in_the_type_that_is_asked() -> None:
    card = Catalog.load().card("bge-small-en-v1.5")
    changed = parse_card(card_of(card, "bfloat16"), "here")
    assert changed.profiles["default"].dtype == "bfloat16"
    assert changed.source == card.source

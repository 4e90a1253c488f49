"""Batches between core and runtime: what a runtime answers is checked before anyone gets it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from shoal.catalog.card import Card, Source
from shoal.catalog.resolve import Catalog
from shoal.catalog.tasks import Dense, EncodeTask, ScoreTask, Tasks
from shoal.core import events as ev
from shoal.core.models import ModelState
from shoal.errors import InvalidItem, ProtocolError
from shoal.tasks.reading import Size
from shoal.telemetry.metrics import WorkerMetrics
from shoal.values import EncodeParams, ScoreParams
from shoal.wire.arrays import Array, from_wire, to_wire
from shoal.wire.queue import Unit
from shoal.wire.socket import Done
from shoal.worker.batches import Batches
from shoal.worker.models import spec_of
from shoal.worker.prepared import Prepared
from shoal.worker.stash import Stash
from shoal.worker.watch import Watch

CARD = Card("m", Source(dir="/m"), "fake", Tasks(encode=EncodeTask(dense=Dense(2))), max_tokens=8)
BATCH = ev.Run("cpu", 1, "m", [ev.Item("u", 0, 3), ev.Item("u", 1, 3)], 0.1)


def rows(*shape: int) -> Array:
    return to_wire(np.ones(shape, np.float32))


@pytest.fixture
def stash() -> Stash:
    unit = Unit("u", "r", "m", "encode", EncodeParams(), "json", [b'"a"', b'"b"'], 60.0, "here")
    stash = Stash(unit, Size(6, 2), "ack", 1, 0.0, 0.0)
    stash.prepared([Prepared(text="a", length=3), Prepared(text="b", length=3)], 0.0)
    return stash


@pytest.fixture
def batches(stash: Stash) -> Batches:
    watch = Watch(WorkerMetrics(), {"m": ModelState(spec_of(CARD, CARD.profile("cpu")))}, None)
    batches = Batches({"u": stash}, watch, Catalog([CARD]))
    run = batches.started(BATCH, 1.0)
    assert (run.heads, run.texts) == (["dense"], ["a", "b"])
    return batches


def test_every_unit_gets_its_rows(batches: Batches, stash: Stash) -> None:
    batches.done("cpu", Done(1, {"dense": rows(2, 2)}, 0.1))
    reply = stash.answer("w")
    assert reply.outputs["dense"].shape == (2, 2)
    assert (reply.timings.compute_s, reply.timings.batch_items) == (0.1, 2)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({}, "answered without dense"),
        ({"dense": rows(1, 2)}, "output 'dense' of 2 items has 1 rows"),
        ({"dense": rows(2)}, "output 'dense' of 2 items is no row of numbers each"),
        ({"sparse": rows(2, 2)}, "answered without dense"),
    ],
)
def test_an_answer_that_does_not_fit_its_batch_is_no_answer(
    batches: Batches, stash: Stash, arrays: dict[str, Array], said: str
) -> None:
    with pytest.raises(ProtocolError, match=said):
        batches.done("cpu", Done(1, arrays, 0.1))
    assert stash.rows == [None, None]


def test_a_batch_that_nobody_runs_any_more_is_ignored(batches: Batches, stash: Stash) -> None:
    batches.lost("cpu", {"m"})
    batches.done("cpu", Done(1, {}, 0.1))
    assert stash.rows == [None, None]


SCORER = Card("s", Source(dir="/s"), "fake", Tasks(score=ScoreTask()), max_tokens=8)


def test_scores_are_one_number_an_item_with_the_card_s_activation() -> None:
    """Two units of one batch, of which one wants logits; what is not finite fails alone."""
    stashes = {
        name: Stash(
            Unit(name, "r", "s", "score", params, "json", [b'"a"'] * 2, 60.0, "here"),
            Size(12, 2),
            "",
            1,
            0.0,
            0.0,
        )
        for name, params in {"u": ScoreParams(b'"q"'), "v": ScoreParams(b'"q"', raw=True)}.items()
    }
    watch = Watch(WorkerMetrics(), {"s": ModelState(spec_of(SCORER, SCORER.profile("cpu")))}, None)
    batches = Batches(dict(stashes), watch, Catalog([SCORER]))
    ids = np.array([1, 2, 3], np.int32)
    for split, stash in enumerate(stashes.values()):
        stash.prepared([Prepared(ids=ids, length=3, split=split)] * 2, 0.0)
    items = [ev.Item(unit, index, 3) for unit in "uv" for index in range(2)]
    run = batches.started(ev.Run("cpu", 1, "s", items, 0.1), 1.0)
    assert run.heads == ["score"]
    assert run.splits is not None
    assert from_wire(run.splits).tolist() == [0, 0, 1, 1]
    logits = np.array([[0.0], [np.nan], [-2.5], [4.0]], np.float32)
    batches.done("cpu", Done(1, {"score": to_wire(logits)}, 0.1))
    u, v = (stash.answer("w") for stash in stashes.values())
    assert from_wire(u.outputs["score"]).tolist() == [0.5]
    assert u.errors[1].code == "model_output_invalid"
    assert from_wire(v.outputs["score"]).tolist() == [-2.5, 4.0]
    assert (u.tokens, v.tokens) == ([3, 0], [3, 3])


def test_two_scores_an_item_are_no_answer(batches: Batches, stash: Stash) -> None:
    batches.dropped(1)
    scoring = msgspec.structs.replace(stash.unit, params=ScoreParams(b'"q"'))
    stash.unit = scoring
    batches.started(BATCH, 1.0)
    with pytest.raises(ProtocolError, match="output 'score' of 2 items is no row"):
        batches.done("cpu", Done(1, {"score": rows(2, 2)}, 0.1))


def test_items_that_all_failed_have_rows_of_no_width(batches: Batches, stash: Stash) -> None:
    """It is an answer: else a bad item by itself would pass for a runtime that broke."""
    batches.dropped(1)
    stash.unit = msgspec.structs.replace(stash.unit, params=ScoreParams(b'"q"'))
    batches.started(BATCH, 1.0)
    failed = dict.fromkeys(range(2), InvalidItem("token id 9").info)
    batches.done("cpu", Done(1, {"score": rows(2, 0)}, 0.1, failed=failed))
    assert [error.code for error in stash.answer("w").errors.values()] == ["invalid_item"] * 2

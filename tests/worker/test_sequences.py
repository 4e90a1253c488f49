"""Items of several sequences, and those that are finished with all of their unit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from shoal.catalog.card import Card, Source
from shoal.catalog.resolve import Catalog
from shoal.catalog.tasks import ExtractTask, Tasks
from shoal.core import events as ev
from shoal.core.models import ModelState
from shoal.errors import ComputeFailed, ErrorInfo, InvalidItem
from shoal.tasks.outputs import Rows
from shoal.tasks.reading import Size
from shoal.telemetry.metrics import WorkerMetrics
from shoal.values import ExtractParams
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.queue import Reply, Unit
from shoal.wire.socket import Done, Run
from shoal.worker.batches import Batches
from shoal.worker.models import spec_of
from shoal.worker.prepared import Prepared, several
from shoal.worker.stash import Stash
from shoal.worker.watch import Watch

EXTRACT = ExtractTask("sequence-labels", ["a"])
CARD = Card("m", Source(dir="/m"), "fake", Tasks(extract=EXTRACT), max_tokens=8)


def sequence(*ids: int) -> Prepared:
    return Prepared(ids=np.array(ids, np.int32), length=len(ids))


def summed(rows: Sequence[Rows], beside: Sequence[Rows]) -> bytes:
    """An answer that tells which rows it was made of."""
    own, others = ([int(np.asarray(row["extract"])[0]) for row in some] for some in (rows, beside))
    return msgspec.msgpack.encode({"rows": own, "beside": others})


class Rig:
    """Units of one model, batches of them, and what each is answered with."""

    def __init__(self, **units: list[Prepared]) -> None:
        self.stashes: dict[str, Stash] = {}
        self.lengths: dict[str, list[int]] = {}
        for name, items in units.items():
            own = [b'"x"'] * sum(item.finish is not None for item in items)
            unit = Unit(name, "r", "m", "extract", ExtractParams(), "json", own, 60.0, "here")
            self.stashes[name] = Stash(unit, Size(0, 0), "ack", 1, 0.0, 0.0)
            self.lengths[name] = self.stashes[name].prepared([*items], 0.0)
        watch = Watch(WorkerMetrics(), {"m": ModelState(spec_of(CARD, CARD.profile("cpu")))}, None)
        self.batches = Batches(dict(self.stashes), watch, Catalog([CARD]))

    def run(self, batch: int, *sequences: tuple[str, int]) -> Run:
        each = [ev.Item(u, n, self.stashes[u].sequence(n).length) for u, n in sequences]
        return self.batches.started(ev.Run("cpu", batch, "m", each, 0.1), 1.0)

    def done(self, run: Run, failed: dict[int, ErrorInfo] | None = None) -> None:
        """Each sequence is answered with its first token."""
        assert run.tokens is not None
        assert run.lengths is not None
        lengths = from_wire(run.lengths)
        firsts = from_wire(run.tokens)[np.cumsum(lengths) - lengths]
        rows = np.where(firsts < 0, np.nan, firsts)[:, None].astype(np.float32)
        self.batches.done(
            "cpu", Done(run.batch, {"extract": to_wire(rows)}, 0.1, failed=failed or {})
        )

    def answer(self, unit: str) -> tuple[list[object], Reply]:
        stash = self.stashes[unit]
        stash.finish()
        reply = stash.answer("w")
        return [msgspec.msgpack.decode(answer) for answer in reply.objects], reply


def test_each_item_gets_the_rows_of_its_own_sequences() -> None:
    two = several([sequence(1, 1), sequence(2)], summed)
    rig = Rig(u=[two, several([sequence(3)], summed)], v=[several([sequence(4)] * 3, summed)])
    assert rig.lengths == {"u": [2, 1, 1], "v": [1, 1, 1]}
    run = rig.run(1, ("u", 0), ("u", 1), ("v", 0), ("v", 1), ("v", 2), ("u", 2))
    assert run.lengths is not None
    assert from_wire(run.lengths).tolist() == [2, 1, 1, 1, 1, 1]
    rig.done(run)
    told, reply = rig.answer("u")
    assert told == [{"rows": [1, 2], "beside": []}, {"rows": [3], "beside": []}]
    assert reply.tokens == [3, 1]
    assert rig.answer("v")[0] == [{"rows": [4, 4, 4], "beside": []}]


def test_sequences_of_one_item_may_run_apart_and_in_any_order() -> None:
    """A sound of half an hour is seventy of them: one batch of all would hold a lane for minutes."""
    rig = Rig(u=[several([sequence(1), sequence(2), sequence(3)], summed)])
    rig.done(rig.run(2, ("u", 2)))
    rig.done(rig.run(1, ("u", 1), ("u", 0)))
    assert rig.answer("u")[0] == [{"rows": [1, 2, 3], "beside": []}]


def test_sequences_given_up_are_told_by_their_items() -> None:
    two = several([sequence(1), sequence(2)], summed)
    stash = Rig(u=[two, two, sequence(7)]).stashes["u"]
    assert stash.at_fault([2, 3]) == [1]
    assert stash.at_fault([4]) == []  # the query's: all of them


def test_an_item_fails_with_any_of_its_sequences() -> None:
    two = several([sequence(1), sequence(2)], summed)
    rig = Rig(u=[two, two, two])
    rig.done(rig.run(1, ("u", 0), ("u", 1), ("u", 2), ("u", 3)), {3: ComputeFailed("no").info})
    rig.done(rig.run(2, ("u", 4), ("u", 5)))
    told, reply = rig.answer("u")
    assert len(told) == 2
    assert {index: error.code for index, error in reply.errors.items()} == {1: "compute_failed"}
    assert reply.tokens == [2, 0, 2]


def test_an_item_has_the_first_error_of_its_sequences() -> None:
    rig = Rig(u=[several([sequence(1), sequence(2)], summed), several([sequence(3)], summed)])
    rig.done(rig.run(1, ("u", 0)), {0: ComputeFailed("first").info})
    rig.done(rig.run(2, ("u", 1), ("u", 2)), {0: ComputeFailed("second").info})
    told, reply = rig.answer("u")
    assert told == [{"rows": [3], "beside": []}]
    assert {index: error.message for index, error in reply.errors.items()} == {0: "first"}


def test_the_core_is_told_which_item_each_sequence_is_of() -> None:
    two = several([sequence(1), sequence(2)], summed)
    rig = Rig(u=[two, several([sequence(3)], summed), sequence(7)])
    assert rig.stashes["u"].wholes() == [0, 0, 1, None]


@pytest.mark.parametrize("raised", [ValueError("cannot reshape"), OverflowError("cannot reshape")])
def test_what_is_not_finite_or_cannot_be_used_fails_alone(raised: Exception) -> None:
    def picky(rows: Sequence[Rows], beside: Sequence[Rows]) -> bytes:
        raise raised

    items = [several([sequence(1), sequence(-1)], summed), several([sequence(2)], picky)]
    rig = Rig(u=[*items, several([sequence(3)], summed)])
    rig.done(rig.run(1, ("u", 0), ("u", 1), ("u", 2), ("u", 3)))
    told, reply = rig.answer("u")
    assert told == [{"rows": [3], "beside": []}]
    codes = [reply.errors[index].code for index in (0, 1)]
    assert codes == ["model_output_invalid", "compute_failed"]
    assert "cannot reshape" in reply.errors[1].message


def test_a_query_is_computed_once_and_its_rows_go_to_every_item() -> None:
    """In whichever batch; its tokens count for each."""
    documents = [several([sequence(n, n)], summed) for n in range(3)]
    rig = Rig(u=[*documents, sequence(7)])
    rig.done(rig.run(1, ("u", 0), ("u", 1)))
    rig.done(rig.run(2, ("u", 2), ("u", 3)))
    told, reply = rig.answer("u")
    assert told == [{"rows": [n], "beside": [7]} for n in range(3)]
    assert reply.tokens == [3, 3, 3]
    assert not reply.truncated


def test_several_sequences_may_stand_beside_all_items() -> None:
    """As labels do, in batches of their own."""
    rig = Rig(u=[several([sequence(n)], summed) for n in range(2)])
    stash = rig.stashes["u"]
    labels = several([sequence(8), sequence(9, 9)], summed)
    stash.items.clear()
    items = [several([sequence(n)], summed) for n in range(2)]
    assert stash.prepared([*items, labels], 0.0) == [1, 1, 1, 2]
    assert stash.at_fault([1]) == [1]
    assert stash.at_fault([3]) == []
    rig.done(rig.run(1, ("u", 3), ("u", 0)))
    rig.done(rig.run(2, ("u", 1), ("u", 2)))
    told, reply = rig.answer("u")
    assert told == [{"rows": [n], "beside": [8, 9]} for n in range(2)]
    assert reply.tokens == [4, 4]


@pytest.mark.parametrize("how", ["failed", "not finite"])
def test_without_its_query_no_item_has_an_answer(how: str) -> None:
    documents = [several([sequence(1)], summed), several([sequence(2)], summed)]
    rig = Rig(u=[*documents, sequence(-1 if how == "not finite" else 7)])
    run = rig.run(1, ("u", 0), ("u", 1), ("u", 2))
    rig.done(run, {2: InvalidItem("no").info} if how == "failed" else None)
    told, reply = rig.answer("u")
    assert not told
    code = "invalid_item" if how == "failed" else "model_output_invalid"
    assert {index: error.code for index, error in reply.errors.items()} == {0: code, 1: code}
    assert reply.tokens == [0, 0]


def test_where_the_query_failed_first_nothing_else_is_waited_for() -> None:
    """No document was computed, and each has the query's error, unless it had one of its own."""
    rig = Rig(u=[several([sequence(1)], summed), several([sequence(2)], summed), sequence(7)])
    stash = rig.stashes["u"]
    stash.fail(1, ComputeFailed("its own").info)
    rig.done(rig.run(1, ("u", 2)), {0: InvalidItem("no").info})
    reply = stash.answer("w")
    assert [reply.errors[index].code for index in (0, 1)] == ["invalid_item", "compute_failed"]
    assert (reply.tokens, reply.objects) == ([0, 0], [])

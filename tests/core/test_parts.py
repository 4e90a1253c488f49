"""Items that are several sequences, and a query that all of a unit need: with one part goes the rest."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core import events as ev
from shoal.core.events import Item
from shoal.core.worker import WorkerCore
from shoal.errors import ErrorInfo
from tests.core.test_worker import head, ready

NO = ErrorInfo("internal", "no")


def started(core: WorkerCore, lengths: list[int], of: list[int | None]) -> ev.Run:
    """The first batch of a unit; one has room for a hundred tokens."""
    core.handle(ev.Arrived(head(), 1, 0), 1.0)
    out = core.handle(ev.Prepared([("u", lengths)], {"u": of}), 1.0)
    return ran([i for i in out if isinstance(i, ev.Run)])


def ran(out: Sequence[ev.Instruction]) -> ev.Run:
    """The one batch that was begun, and nothing else."""
    (run,) = out
    assert isinstance(run, ev.Run)
    return run


def told(core: WorkerCore, event: ev.Event, now: float) -> list[ev.Instruction]:
    """What follows for units and batches."""
    out = core.handle(event, now)
    return [i for i in out if not isinstance(i, ev.Pull | ev.Withdraw)]


def test_what_is_left_of_an_item_is_not_computed_once_a_part_of_it_failed() -> None:
    core = ready()
    run = started(core, [60, 60, 60, 60, 30], [0, 0, 0, 1, 2])
    assert run.items == [Item("u", 0, 60)]
    out = told(core, ev.Finished("cpu", run.batch, 0.06, failed=(0,)), 1.06)
    assert ran(out).items == [Item("u", 3, 60), Item("u", 4, 30)]
    assert core.models["m"].waiting_s == 0
    assert told(core, ev.Finished("cpu", 2, 0.09), 1.15) == [ev.Reply("u")]


def test_the_last_part_that_fails_answers_the_unit() -> None:
    core = ready()
    run = started(core, [60, 60, 60], [0, 0, 0])
    assert told(core, ev.Finished("cpu", run.batch, 0.06, failed=(0,)), 1.06) == [ev.Reply("u")]
    assert not core.models["m"].shelf


def test_parts_of_one_batch_that_came_back_are_given_up_with_one_error() -> None:
    core = ready()
    run = started(core, [40, 40], [0, 0])
    assert len(run.items) == 2
    assert ran(told(core, ev.BatchFailed("cpu", run.batch, NO), 1.01)).items == [Item("u", 0, 40)]
    failed, reply = told(core, ev.BatchFailed("cpu", 2, NO), 1.02)
    assert (type(failed), reply) == (ev.FailItem, ev.Reply("u"))


def test_a_part_under_way_elsewhere_is_not_tried_again() -> None:
    core = ready()
    run = started(core, [60, 60, 60], [0, 0, 1])
    assert ran(told(core, ev.Ticked(), 1.059)).items == [Item("u", 1, 60)]
    assert told(core, ev.Finished("cpu", run.batch, 0.06, failed=(0,)), 1.06) == []
    assert ran(told(core, ev.BatchFailed("cpu", 2, NO), 1.07)).items == [Item("u", 2, 60)]
    assert told(core, ev.Finished("cpu", 3, 0.06), 1.13) == [ev.Reply("u")]


def test_without_its_query_no_document_is_computed_and_the_other_way_round() -> None:
    core = ready()
    run = started(core, [60, 60, 60], [0, 1, None])
    out = told(core, ev.Finished("cpu", run.batch, 0.06, failed=(0,)), 1.06)
    assert ran(out).items == [Item("u", 1, 60)]
    assert told(core, ev.Finished("cpu", 2, 0.06, failed=(0,)), 1.12) == [ev.Reply("u")]
    core = ready()
    run = started(core, [60, 60, 60], [None, 0, 1])
    assert told(core, ev.Finished("cpu", run.batch, 0.06, failed=(0,)), 1.06) == [ev.Reply("u")]


def test_where_every_document_failed_before_it_ran_the_query_does_not() -> None:
    core = ready()
    core.handle(ev.Arrived(head(), 1, 0), 1.0)
    out = told(core, ev.Prepared([("u", [0, 0, 9])], {"u": [0, 1, None]}), 1.0)
    assert out == [ev.Reply("u")]


def test_items_of_a_batch_that_came_back_wait_again() -> None:
    """Else a worker would ask for others in their place."""
    core = ready()
    run = started(core, [40, 40], [])
    core.handle(ev.BatchFailed("cpu", run.batch, NO), 1.01)
    assert core.models["m"].waiting_s == 0.04
    core.handle(ev.Finished("cpu", 2, 0.04), 1.05)
    assert core.models["m"].waiting_s == 0

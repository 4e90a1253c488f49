"""Batches: whose answer is whose, what fails alone, what as a whole, and what is called off."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from shoal.runtimes.check.sample import apart, batch_of, numbers, rows_of, spoiled
from shoal.runtimes.check.subject import BASE, Subject
from shoal.runtimes.check.verdict import expect, needs, shown
from shoal.wire.arrays import to_wire
from shoal.wire.outputs import Row
from shoal.wire.socket import CancelBatch, Done, Failed, Run

#: Sent ahead; a worker does so with one or two.
_AHEAD = 20


def each_item_has_its_answer(subject: Subject) -> None:
    """A batch is answered with a row for every item, for every head, the same as if it were alone."""
    process, items = subject.resident, subject.items
    done = process.ask(batch_of(41, BASE, items), Done)
    expect(done.batch == 41, f"batch 41 was sent, {done.batch} was answered")
    expect(not done.failed, f"items fail that should not: {done.failed}")
    expect(done.seconds > 0, "it took no time")
    tokens = sum(run.tokens.shape[0] for run in items if run.tokens is not None)
    expect(
        done.computed_tokens >= tokens,
        f"{tokens} tokens were sent, and {done.computed_tokens} were computed",
    )
    together = _rows(done, items[0].heads, len(items))
    for place, item in enumerate(items):
        alone = _rows(process.ask(batch_of(42, BASE, [item]), Done), item.heads, 1)
        for head, rows in together.items():
            _same(rows[place], alone[head][0], subject.sample.tolerance, f"item {place}, '{head}'")
    first = items[0].heads[0]
    answers = {numbers(row).tobytes() for row in together[first]}
    expect(len(answers) > 1, "different items have one and the same answer")


def batches_in_order(subject: Subject) -> None:
    """Batches that are sent ahead are answered once each, in their order unless it batches itself."""
    process = subject.resident
    process.send(*(subject.run(number) for number in range(_AHEAD)))
    answered = [process.hear(Done).batch for _ in range(_AHEAD)]
    if subject.capabilities.batching == "self":
        answered.sort()
    expect(answered == [*range(_AHEAD)], f"0 to {_AHEAD - 1} were sent, {answered} came back")


def a_bad_item_fails_alone(subject: Subject) -> None:
    """An item that cannot be computed has an error of its own, and its neighbours their answers."""
    process, good = subject.resident, subject.items[0]
    bad = spoiled(good, subject.sample.bad_id)
    needs(bad is not None, "no item is known that this model cannot compute")
    assert bad is not None
    done = process.ask(batch_of(1, BASE, [good, bad, good]), Done)
    expect([*done.failed] == [1], f"item 1 was to fail, and {[*done.failed]} did")
    error = done.failed[1]
    expect(bool(error.code and error.message), f"its error does not say what is wrong: {error}")
    together = _rows(done, good.heads, 3)
    alone = _rows(process.ask(batch_of(2, BASE, [good]), Done), good.heads, 1)
    for head, rows in together.items():
        for place in (0, 2):
            _same(rows[place], alone[head][0], subject.sample.tolerance, f"item {place}, '{head}'")


def a_batch_without_sense(subject: Subject) -> None:
    """A batch that makes no sense is refused as a whole, and the next one is computed."""
    process = subject.resident
    sound = batch_of(9, BASE, subject.items[:2])
    _refused(subject, msgspec.structs.replace(sound, heads=["no-such-head"]), "no-such-head")
    if sound.tokens is not None:
        total = sound.tokens.shape[0]
        for change in (
            {"tokens": None},
            {"lengths": to_wire(np.array([total, total + 1], np.int32))},
            {"lengths": to_wire(np.array([-1, total + 1], np.int32))},
        ):
            _refused(subject, msgspec.structs.replace(sound, **change))
    else:
        nothing = Run(9, BASE, sound.heads)
        _refused(subject, nothing)
    subject.works(process)


def an_array_that_lies(subject: Subject) -> None:
    """An array whose shape says more than its bytes hold is refused, and nothing beside it read."""
    process = subject.resident
    sound = batch_of(9, BASE, subject.items[:2])
    needs(sound.tokens is not None, "the model takes no arrays")
    assert sound.tokens is not None
    lying = msgspec.structs.replace(sound.tokens, shape=(sound.tokens.shape[0] + 300,))
    failed = process.ask(msgspec.structs.replace(sound, tokens=lying), Failed)
    expect(failed.batch == 9, f"batch 9 was sent, {failed.batch} was answered")
    subject.works(process)


def cancel_before_it_starts(subject: Subject) -> None:
    """A batch that is called off before it starts is answered so, at once, and the others are done."""
    process, batches = subject.resident, subject.busy()
    last = len(batches) - 1
    process.send(*batches, CancelBatch(last))
    answers = [process.hear_any() for _ in batches]
    failed = [answer for answer in answers if isinstance(answer, Failed)]
    expect(len(failed) == 1, f"one batch of {len(batches)} was called off, {len(failed)} failed")
    expect(
        (failed[0].code, failed[0].batch) == ("cancelled", last),
        f"'cancelled' of batch {last} was due, {shown(failed[0])} came",
    )
    expect(answers[-1] is not failed[0], "it was told after all batches before it were done")
    done = sorted(answer.batch for answer in answers if isinstance(answer, Done))
    expect(done == [*range(last)], f"the others were to be done, and {done} were")


def cancel_what_is_over(subject: Subject) -> None:
    """To call off what is over, or never came, does nothing."""
    process = subject.resident
    process.ask(subject.run(1), Done)
    process.send(CancelBatch(1), CancelBatch(78))
    done = process.ask(subject.run(2), Done)
    expect(done.batch == 2, f"batch 2 was sent, {done.batch} was answered")


def _refused(subject: Subject, batch: Run, said: str = "") -> None:
    failed = subject.resident.ask(batch, Failed)
    expect(failed.code == "invalid_request", f"'invalid_request' was due, {shown(failed)} came")
    expect(failed.batch == batch.batch, f"batch {batch.batch} was sent, not {failed.batch}")
    expect(said in failed.message, f"it does not say what is wrong: {failed.message}")


def _rows(done: Done, heads: Sequence[str], items: int) -> dict[str, Sequence[Row]]:
    rows = rows_of(done, items)
    expect(rows.keys() == set(heads), f"{[*heads]} were asked for, {[*rows]} came")
    return rows


def _same(row: Row, other: Row, tolerance: float, what: str) -> None:
    expect(bool(np.isfinite(numbers(row)).all()), f"{what}: not all of it are numbers")
    far = apart(row, other)
    expect(far <= tolerance, f"{what}: {far:.1e} from what it is alone")


CHECKS = (
    each_item_has_its_answer,
    batches_in_order,
    a_bad_item_fails_alone,
    a_batch_without_sense,
    an_array_that_lies,
    cancel_before_it_starts,
    cancel_what_is_over,
)

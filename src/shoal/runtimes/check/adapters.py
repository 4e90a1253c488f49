"""LoRAs on a model: put on, used item by item, taken off; or refused."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.runtimes.check.sample import apart, batch_of, rows_of
from shoal.runtimes.check.subject import BASE, Subject
from shoal.runtimes.check.verdict import expect, needs, shown
from shoal.wire.outputs import Row
from shoal.wire.socket import AddAdapter, Done, Failed, RemoveAdapter, Run

_NAME = "own"


def adapters_where_none_are_taken(subject: Subject) -> None:
    """A runtime that takes no adapters says so of each, and of a batch that asks for one."""
    needs(not subject.capabilities.lora, "it takes adapters")
    process = subject.resident
    for message in (AddAdapter(BASE, _NAME, "/own"), RemoveAdapter(BASE, _NAME)):
        failed = process.ask(message, Failed)
        expect(failed.code == "invalid_request", f"'invalid_request' was due, {shown(failed)} came")
        expect(failed.model == BASE, f"'{BASE}' was meant, and '{failed.model}' answered")
    failed = process.ask(_with(subject, [_NAME]), Failed)
    expect(failed.code == "invalid_request", f"'invalid_request' was due, {shown(failed)} came")
    subject.works(process)


def adapters(subject: Subject) -> None:
    """An adapter changes the items that ask for it and no others, until it is taken off."""
    needs(subject.capabilities.lora, "it says of itself that it takes no adapters")
    path = subject.sample.adapter
    needs(path is not None, "there is no adapter to try it with")
    process = subject.resident
    plain = _first(process.ask(_with(subject, [None]), Done), 1)[0]
    process.send(AddAdapter(BASE, _NAME, str(path)))  # answered only where it fails
    own, other = _first(process.ask(_with(subject, [_NAME, None]), Done), 2)
    tolerance = subject.sample.tolerance
    expect(apart(own, plain) > tolerance, "an item with the adapter is as without")
    expect(apart(other, plain) <= tolerance, "an item without the adapter has it too")
    process.send(RemoveAdapter(BASE, _NAME))
    failed = process.ask(_with(subject, [_NAME]), Failed)
    expect(failed.code == "invalid_request", f"'invalid_request' was due, {shown(failed)} came")
    subject.works(process)


def _with(subject: Subject, names: Sequence[str | None]) -> Run:
    """The same item for each of these adapters."""
    batch = batch_of(4, BASE, [subject.items[0]] * len(names))
    return msgspec.structs.replace(batch, adapters=[*names])


def _first(done: Done, items: int) -> list[Row]:
    rows = rows_of(done, items)
    return [*next(iter(rows.values()))]


CHECKS = (adapters_where_none_are_taken, adapters)

"""Batches between core and runtime: items packed into `Run`, answers spread over their units."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from shoal.catalog.resolve import Catalog
from shoal.catalog.tasks import Tasks
from shoal.core import events as ev
from shoal.errors import ComputeFailed, ErrorInfo, ProtocolError
from shoal.tasks.encode import invalid_output
from shoal.tasks.outputs import SCORE, finished, needed
from shoal.values import Params
from shoal.wire.arrays import Array, to_wire
from shoal.wire.outputs import Output, read_outputs
from shoal.wire.socket import Done, Run
from shoal.worker.prepared import Prepared
from shoal.worker.stash import Stash
from shoal.worker.watch import Watch

#: Of an item that is media; and in the place of media, of an item that is none.
_NO_IDS = np.zeros(0, np.int32)


class _Running(msgspec.Struct, frozen=True):
    """A batch that is with a runtime."""

    run: ev.Run
    started_at: float


class Batches:
    """Batches that are with a runtime, and the units their items belong to."""

    def __init__(self, units: dict[str, Stash], watch: Watch, catalog: Catalog) -> None:
        self._units = units
        self._watch = watch
        self._catalog = catalog
        self._running: dict[int, _Running] = {}

    def started(self, run: ev.Run, now: float) -> Run:
        """The batch as the runtime takes it."""
        sequences = [self._units[item.unit].sequence(item.index) for item in run.items]
        self._running[run.batch] = _Running(run, now)
        return packed(run.batch, run.model, self._asked(run), sequences)

    def _asked(self, run: ev.Run) -> list[str]:
        """The outputs that any unit still here wants."""
        tasks = self._catalog.card(run.model).tasks
        asked = {stash.unit.params: None for stash in self._here(run)}
        return list(dict.fromkeys(name for params in asked for name in needed(params, tasks)))

    def _here(self, run: ev.Run) -> list[Stash]:
        """Its units that are still here."""
        here = {item.unit: self._units.get(item.unit) for item in run.items}
        return [stash for stash in here.values() if stash is not None]

    def dropped(self, batch: int) -> None:
        """The batch came back undone."""
        self._running.pop(batch, None)

    def lost(self, lane: str, models: set[str]) -> None:
        """The runtime that held these models on this lane died with its batches."""
        for batch, running in list(self._running.items()):
            if running.run.lane == lane and running.run.model in models:
                del self._running[batch]

    def done(self, lane: str, done: Done) -> None:
        """Give every unit its rows, or the errors of its items.

        Raises:
            ProtocolError: the runtime did not answer what it was asked; nothing was given yet.
        """
        running = self._running.get(done.batch)
        if running is None:
            return
        run = running.run
        outputs = _outputs(done, self._asked(run), len(run.items))
        del self._running[done.batch]
        self._watch.batch_done(lane, run, done)
        self._give(run, outputs, done.failed)
        for stash in self._here(run):
            stash.computed(running.started_at, done.seconds, len(run.items))

    def _give(self, run: ev.Run, outputs: dict[str, Output], failed: dict[int, ErrorInfo]) -> None:
        """Each item its error or its rows, now or with all of its unit."""
        tasks = self._catalog.card(run.model).tasks
        at_once: dict[Params, list[_Row]] = {}
        later: list[_Row] = []
        for place, item in enumerate(run.items):
            stash = self._units.get(item.unit)
            if stash is None:
                continue
            row = _Row(place, stash, *stash.place(item.index))
            if place in failed:
                stash.fail(row.item, _own(failed[place]))
            elif stash.waits(row.item):
                later.append(row)
            else:
                at_once.setdefault(stash.unit.params, []).append(row)
        for params, own in at_once.items():
            _answer(own, outputs, params, tasks)
        if later:
            _keep(later, outputs, tasks)


class _Row(NamedTuple):
    """A row of a batch, and whose it is: `part` of the sequences of its `item`."""

    place: int
    stash: Stash
    item: int
    part: int


def _answer(own: list[_Row], outputs: dict[str, Output], params: Params, tasks: Tasks) -> None:
    """Items of one sequence each, all asked alike."""
    made = finished(outputs, [row.place for row in own], params, tasks)
    for n, (_, stash, index, _) in enumerate(own):
        if n in made.invalid:
            stash.fail(index, invalid_output().info)
        else:
            stash.rows[index] = {name: rows[n] for name, rows in made.rows.items()}


def _keep(own: list[_Row], outputs: dict[str, Output], tasks: Tasks) -> None:
    """Rows of items that are finished with all of their unit."""
    rows = {name: output.rows() for name, output in outputs.items()}
    for place, stash, index, part in own:
        names = needed(stash.unit.params, tasks)
        stash.raw.setdefault(index, {})[part] = {name: rows[name][place] for name in names}


def packed(batch: int, model: str, heads: list[str], items: list[Prepared]) -> Run:
    """Sequences that were prepared for one model, as its runtime takes them."""
    if items[0].ids is None and items[0].input is None:
        texts = [i.text or "" for i in items] if any(i.text is not None for i in items) else None
        media = [i.media or b"" for i in items] if any(i.media for i in items) else None
        return Run(batch, model, heads, texts=texts, media=media)
    ids = [_NO_IDS if i.ids is None else i.ids for i in items]
    lengths = np.array([len(i) for i in ids], dtype=np.int32)
    tokens = ids[0] if len(ids) == 1 else np.concatenate(ids)
    splits, seen = _counts([i.split for i in items]), _counts([i.seen for i in items])
    decoded = any(i.input is not None for i in items)
    inputs = [to_wire(_NO_IDS if i.input is None else i.input) for i in items] if decoded else None
    begun = any(i.begin is not None for i in items)
    begins = [to_wire(_NO_IDS if i.begin is None else i.begin) for i in items] if begun else None
    return Run(
        batch,
        model,
        heads,
        to_wire(tokens),
        to_wire(lengths),
        splits=splits,
        inputs=inputs,
        seen=seen,
        marks=_marks(items),
        begins=begins,
        temperatures=_temperatures(items),
    )


def _marks(items: list[Prepared]) -> Array | None:
    if all(i.marks is None for i in items):
        return None
    return to_wire(
        np.concatenate(
            [np.zeros(i.length, np.uint8) if i.marks is None else i.marks for i in items]
        )
    )


def _temperatures(items: list[Prepared]) -> Array | None:
    given = [i.temperature for i in items]
    if all(temperature is None for temperature in given):
        return None
    return to_wire(np.array([-1.0 if t is None else t for t in given], dtype=np.float32))


def _counts(counts: list[int]) -> Array | None:
    return to_wire(np.array(counts, dtype=np.int32)) if any(counts) else None


def _outputs(done: Done, asked: list[str], sequences: int) -> dict[str, Output]:
    outputs = read_outputs(done.arrays, done.lengths, done.indices, sequences)
    if missing := [name for name in asked if name not in outputs]:
        raise ProtocolError(f"batch of {sequences} items was answered without {', '.join(missing)}")
    if len(done.failed) >= sequences:
        return outputs  # a runtime that computed nothing cannot know how wide that would be
    for name, width in (("dense", None), (SCORE, 1)):
        output = outputs.get(name)
        if output is not None and not _is_row_an_item(output, width):
            raise ProtocolError(f"output '{name}' of {sequences} items is no row of numbers each")
    return outputs


def _is_row_an_item(output: Output, width: int | None) -> bool:
    shape = output.values.shape
    return output.lengths is None and len(shape) == 2 and width in (None, shape[1])


def _own(error: ErrorInfo) -> ErrorInfo:
    """Errors of single items keep their own code; a bare one becomes `compute_failed`."""
    return error if error.code != "internal" else ComputeFailed(error.message).info

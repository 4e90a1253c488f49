"""Batches between core and runtime: items packed into `Run`, answers spread over their units."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import msgspec
import numpy as np

from shoal.catalog.card import Tasks
from shoal.catalog.resolve import Catalog
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
    """A batch that is with a runtime.

    Attributes:
        ends: where the sequences of each item end, among those of the batch.
    """

    run: ev.Run
    started_at: float
    ends: Sequence[int]


class Batches:
    """Batches that are with a runtime, and the units their items belong to."""

    def __init__(self, units: dict[str, Stash], watch: Watch, catalog: Catalog) -> None:
        self._units = units
        self._watch = watch
        self._catalog = catalog
        self._running: dict[int, _Running] = {}

    def started(self, run: ev.Run, now: float) -> Run:
        """The batch as the runtime takes it."""
        items = [self._item(item) for item in run.items]
        ends: Sequence[int] = range(1, len(items) + 1)
        if any(item.parts for item in items):
            ends = list(accumulate(len(item.sequences) for item in items))
            items = [sequence for item in items for sequence in item.sequences]
        self._running[run.batch] = _Running(run, now, ends)
        return packed(run.batch, run.model, self._asked(run), items)

    def _item(self, item: ev.Item) -> Prepared:
        prepared = self._units[item.unit].items[item.index]
        assert prepared is not None, "an item that failed runs in no batch"
        return prepared

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
        run, ends = running.run, running.ends
        outputs = _outputs(done, self._asked(run), ends[-1])
        del self._running[done.batch]
        self._watch.batch_done(lane, run, done)
        self._give(run, ends, outputs, done.failed)
        for stash in self._here(run):
            stash.computed(running.started_at, done.seconds, len(run.items))

    def _give(
        self,
        run: ev.Run,
        ends: Sequence[int],
        outputs: dict[str, Output],
        failed_rows: dict[int, ErrorInfo],
    ) -> None:
        """Each item its error or its rows, now or with all of its unit."""
        tasks = self._catalog.card(run.model).tasks
        failed = {bisect_right(ends, row): _own(error) for row, error in failed_rows.items()}
        at_once: dict[Params, list[tuple[int, ev.Item]]] = {}
        later: list[tuple[range, ev.Item]] = []
        for place, item in enumerate(run.items):
            stash = self._units.get(item.unit)
            if stash is None:
                continue
            if place in failed:
                stash.fail(item.index, failed[place])
            elif stash.waits(item.index):
                later.append((range(ends[place - 1] if place else 0, ends[place]), item))
            else:
                at_once.setdefault(stash.unit.params, []).append((ends[place] - 1, item))
        for params, items in at_once.items():
            self._answer(items, outputs, params, tasks)
        if later:
            self._keep(later, outputs, tasks)

    def _answer(
        self,
        items: list[tuple[int, ev.Item]],
        outputs: dict[str, Output],
        params: Params,
        tasks: Tasks,
    ) -> None:
        """Items of one sequence each, all asked alike."""
        made = finished(outputs, [row for row, _ in items], params, tasks)
        for place, (_, item) in enumerate(items):
            stash = self._units[item.unit]
            if place in made.invalid:
                stash.fail(item.index, invalid_output().info)
            else:
                stash.rows[item.index] = {name: rows[place] for name, rows in made.rows.items()}

    def _keep(
        self, items: list[tuple[range, ev.Item]], outputs: dict[str, Output], tasks: Tasks
    ) -> None:
        """Items that are finished with all of their unit: the rows of their sequences."""
        rows = {name: output.rows() for name, output in outputs.items()}
        for sequences, item in items:
            stash = self._units[item.unit]
            names = needed(stash.unit.params, tasks)
            stash.raw[item.index] = [{name: rows[name][n] for name in names} for n in sequences]


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
    return Run(
        batch,
        model,
        heads,
        to_wire(tokens),
        to_wire(lengths),
        splits=splits,
        inputs=inputs,
        seen=seen,
    )


def _counts(counts: list[int]) -> Array | None:
    return to_wire(np.array(counts, dtype=np.int32)) if any(counts) else None


def _outputs(done: Done, asked: list[str], sequences: int) -> dict[str, Output]:
    outputs = read_outputs(done.arrays, done.lengths, done.indices, sequences)
    if missing := [name for name in asked if name not in outputs]:
        raise ProtocolError(f"batch of {sequences} items was answered without {', '.join(missing)}")
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

"""Batches between core and runtime: items packed into `Run`, answers spread over their units."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.catalog.resolve import Catalog
from shoal.core import events as ev
from shoal.errors import ComputeFailed, ErrorInfo, ProtocolError
from shoal.tasks import encode
from shoal.values import EncodeParams
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Done, Run
from shoal.worker.stash import Stash
from shoal.worker.text import Prepared
from shoal.worker.watch import Watch


class Batches:
    """Batches that are with a runtime, and the units their items belong to."""

    def __init__(self, units: dict[str, Stash], watch: Watch, catalog: Catalog) -> None:
        self._units = units
        self._watch = watch
        self._catalog = catalog
        self._running: dict[int, tuple[ev.Run, float]] = {}

    def started(self, run: ev.Run, now: float) -> Run:
        """The batch as the runtime takes it."""
        self._running[run.batch] = (run, now)
        items = [self._item(item) for item in run.items]
        return packed(run.batch, run.model, self._asked(run), items)

    def _item(self, item: ev.Item) -> Prepared:
        prepared = self._units[item.unit].items[item.index]
        assert prepared is not None, "an item that failed runs in no batch"
        return prepared

    def _asked(self, run: ev.Run) -> list[str]:
        """The heads that any unit still here wants."""
        units = [unit for item in run.items if (unit := self._units.get(item.unit)) is not None]
        return list(dict.fromkeys(head for unit in units for head in unit.unit.params.outputs))

    def dropped(self, batch: int) -> None:
        """The batch came back undone."""
        self._running.pop(batch, None)

    def lost(self, lane: str, models: set[str]) -> None:
        """The runtime that held these models on this lane died with its batches."""
        for batch, (run, _) in list(self._running.items()):
            if run.lane == lane and run.model in models:
                del self._running[batch]

    def done(self, lane: str, done: Done) -> None:
        """Give every unit its rows, or the errors of its items.

        Raises:
            ProtocolError: the runtime did not answer what it was asked; nothing was given yet.
        """
        run, started_at = self._running.get(done.batch, (None, 0.0))
        if run is None:
            return
        arrays = _rows(done, self._asked(run), len(run.items))
        del self._running[done.batch]
        self._watch.batch_done(lane, run, done)
        for items, params in self._by_params(run.items):
            rows = [row for row, _ in items]
            self._spread(items, self._finish(arrays, rows, params, run.model, len(run.items)), done)
        for item in run.items:
            stash = self._units.get(item.unit)
            if stash is not None:
                stash.computed(started_at, done.seconds, len(run.items))

    def _by_params(
        self, items: list[ev.Item]
    ) -> list[tuple[list[tuple[int, ev.Item]], EncodeParams]]:
        """Items whose unit is still here, with their rows, grouped by what was asked."""
        groups: dict[EncodeParams, list[tuple[int, ev.Item]]] = {}
        for row, item in enumerate(items):
            stash = self._units.get(item.unit)
            if stash is not None:
                groups.setdefault(stash.unit.params, []).append((row, item))
        return [(group, params) for params, group in groups.items()]

    def _finish(
        self,
        arrays: dict[str, NDArray[Any]],
        rows: list[int],
        params: EncodeParams,
        model: str,
        total: int,
    ) -> dict[str, NDArray[Any]]:
        """Each head's vectors of these rows as the caller wants them."""
        task = self._catalog.card(model).tasks.encode
        normalize = task is None or task.normalize
        return {
            head: encode.finish(array if len(rows) == total else array[rows], params, normalize)
            for head, array in arrays.items()
            if head in params.outputs
        }

    def _spread(
        self, items: list[tuple[int, ev.Item]], vectors: dict[str, NDArray[Any]], done: Done
    ) -> None:
        invalid = {row for array in vectors.values() for row in encode.invalid_rows(array)}
        for position, (row, item) in enumerate(items):
            stash = self._units[item.unit]
            if row in done.failed:
                stash.fail(item.index, _as_compute_error(done.failed[row]))
            elif position in invalid:
                stash.fail(item.index, encode.invalid_output().info)
            else:
                stash.rows[item.index] = {head: array[position] for head, array in vectors.items()}


def packed(batch: int, model: str, heads: list[str], items: list[Prepared]) -> Run:
    """Items that were prepared for one model, as its runtime takes them."""
    if items[0].ids is None:
        texts = [i.text or "" for i in items] if any(i.text is not None for i in items) else None
        media = [i.media or b"" for i in items] if any(i.media for i in items) else None
        return Run(batch, model, heads, texts=texts, media=media)
    ids = [i.ids for i in items if i.ids is not None]
    lengths = np.array([len(i) for i in ids], dtype=np.int32)
    tokens = ids[0] if len(ids) == 1 else np.concatenate(ids)
    return Run(batch, model, heads, to_wire(tokens), to_wire(lengths))


def _rows(done: Done, heads: list[str], items: int) -> dict[str, NDArray[Any]]:
    arrays = {head: from_wire(array) for head, array in done.arrays.items()}
    for head in heads:
        shape = arrays[head].shape if head in arrays else None
        if shape is None or len(shape) != 2 or shape[0] != items:
            raise ProtocolError(f"batch of {items} items was answered with '{head}' of {shape}")
    return arrays


def _as_compute_error(error: ErrorInfo) -> ErrorInfo:
    """Errors of single items keep their own code; a bare one becomes `compute_failed`."""
    return error if error.code != "internal" else ComputeFailed(error.message).info

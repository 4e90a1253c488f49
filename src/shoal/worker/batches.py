"""Batches between core and runtime: items packed into `Run`, answers spread over their units."""

from __future__ import annotations

import numpy as np

from shoal.catalog.resolve import Catalog
from shoal.core import events as ev
from shoal.errors import ComputeFailed, ErrorInfo, ProtocolError
from shoal.tasks import encode
from shoal.values import EncodeParams, ExtractParams, Params, ScoreParams
from shoal.wire.arrays import to_wire
from shoal.wire.outputs import Output, Row, read_outputs
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
        """The outputs that any unit still here wants."""
        units = [unit for item in run.items if (unit := self._units.get(item.unit)) is not None]
        return list(dict.fromkeys(name for unit in units for name in outputs_of(unit.unit.params)))

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
        outputs = _outputs(done, self._asked(run), len(run.items))
        del self._running[done.batch]
        self._watch.batch_done(lane, run, done)
        for items, params in self._by_params(run.items):
            rows = [row for row, _ in items]
            self._spread(items, self._finished(outputs, rows, params, run.model), done)
        for item in run.items:
            stash = self._units.get(item.unit)
            if stash is not None:
                stash.computed(started_at, done.seconds, len(run.items))

    def _by_params(self, items: list[ev.Item]) -> list[tuple[list[tuple[int, ev.Item]], Params]]:
        """Items whose unit is still here, with their rows, grouped by what was asked."""
        groups: dict[Params, list[tuple[int, ev.Item]]] = {}
        for row, item in enumerate(items):
            stash = self._units.get(item.unit)
            if stash is not None:
                groups.setdefault(stash.unit.params, []).append((row, item))
        return [(group, params) for params, group in groups.items()]

    def _finished(
        self, outputs: dict[str, Output], rows: list[int], params: Params, model: str
    ) -> dict[str, tuple[list[Row], list[int]]]:
        """Each output's rows as the caller wants them, and which of them are not finite."""
        card = self._catalog.card(model)
        return {
            name: encode.finished(name, outputs[name], rows, params, card.tasks.encode)
            for name in outputs_of(params)
        }

    def _spread(
        self,
        items: list[tuple[int, ev.Item]],
        finished: dict[str, tuple[list[Row], list[int]]],
        done: Done,
    ) -> None:
        invalid = {place for _, wrong in finished.values() for place in wrong}
        for place, (row, item) in enumerate(items):
            stash = self._units[item.unit]
            if row in done.failed:
                stash.fail(item.index, _as_compute_error(done.failed[row]))
            elif place in invalid:
                stash.fail(item.index, encode.invalid_output().info)
            else:
                stash.rows[item.index] = {name: rows[place] for name, (rows, _) in finished.items()}


def outputs_of(params: Params) -> tuple[str, ...]:
    """The outputs of its model that a unit needs."""
    match params:
        case EncodeParams(outputs):
            return outputs
        case ScoreParams():
            return ("score",)
        case ExtractParams():
            return ("extract",)


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


def _outputs(done: Done, asked: list[str], items: int) -> dict[str, Output]:
    outputs = read_outputs(done.arrays, done.lengths, done.indices, items)
    if missing := [name for name in asked if name not in outputs]:
        raise ProtocolError(f"batch of {items} items was answered without {', '.join(missing)}")
    dense = outputs.get("dense")
    if dense is not None and (dense.lengths is not None or dense.values.ndim != 2):
        raise ProtocolError(f"output 'dense' of {items} items is no row of numbers each")
    return outputs


def _as_compute_error(error: ErrorInfo) -> ErrorInfo:
    """Errors of single items keep their own code; a bare one becomes `compute_failed`."""
    return error if error.code != "internal" else ComputeFailed(error.message).info

"""What a worker holds of a unit besides the core's bookkeeping: contents, results, the answer."""

from __future__ import annotations

from shoal.errors import ErrorInfo, ShoalError
from shoal.tasks.encode import RAGGED
from shoal.wire.outputs import Row, joined, to_wires
from shoal.wire.queue import Reply, Timings, Unit
from shoal.worker.text import Prepared

Rows = dict[str, Row]


class Stash:
    """One unit's contents from delivery to settlement."""

    __slots__ = (
        "ack",
        "answered",
        "arrived_at",
        "batch_items",
        "compute_s",
        "delivered",
        "errors",
        "items",
        "prepared_at",
        "queue_s",
        "rows",
        "started_at",
        "unit",
    )

    def __init__(self, unit: Unit, ack: str, delivered: int, now: float, queue_s: float) -> None:
        self.unit = unit
        self.ack = ack
        self.delivered = delivered
        self.arrived_at = now
        self.queue_s = queue_s
        self.prepared_at = now
        self.started_at: float | None = None
        self.compute_s = 0.0
        self.batch_items = 0
        self.items: list[Prepared | None] = []
        self.errors: dict[int, ErrorInfo] = {}
        self.rows: list[Rows | None] = []
        self.answered: Reply | None = None

    @property
    def bytes(self) -> int:
        """What its items take in the caller's encoding, payloads included."""
        unit = self.unit
        return sum(map(len, unit.items)) + sum(p.bytes for p in unit.payloads.values())

    def prepared(self, items: list[Prepared | ShoalError], now: float) -> list[int]:
        """Keep the prepared items; returns their lengths, 0 for the ones that failed."""
        self.prepared_at = now
        self.rows = [None] * len(items)
        for index, item in enumerate(items):
            if isinstance(item, ShoalError):
                self.errors[index] = item.info
                self.items.append(None)
            else:
                self.items.append(item)
        return [item.length if item is not None else 0 for item in self.items]

    def computed(self, started_at: float, seconds: float, batch_items: int) -> None:
        """A batch with items of this unit is done; the last one counts."""
        self.started_at, self.compute_s, self.batch_items = started_at, seconds, batch_items

    def fail(self, index: int, error: ErrorInfo) -> None:
        """This item will not be answered with a vector."""
        self.errors[index] = error
        self.rows[index] = None

    def fail_all(self, error: ErrorInfo, worker: str) -> None:
        """The unit is answered with this error as a whole."""
        self.answered = Reply(self.unit.id, worker, self.ack, timings=self._timings(), error=error)

    def answer(self, worker: str) -> Reply:
        """The reply, made once and kept for sending again; a newer delivery's ack replaces the old."""
        if self.answered is None:
            self.answered = self._build(worker)
            self.items, self.rows = [], []
        elif self.answered.ack != self.ack:
            fields = {name: getattr(self.answered, name) for name in Reply.__struct_fields__}
            self.answered = Reply(**fields | {"ack": self.ack})
        return self.answered

    def _build(self, worker: str) -> Reply:
        good = [rows for rows in self.rows if rows is not None]
        outputs = {
            head: joined([rows[head] for rows in good], ragged=head in RAGGED)
            for head in (good[0] if good else ())
        }
        arrays, lengths, indices = to_wires(outputs)
        return Reply(
            self.unit.id,
            worker,
            self.ack,
            tokens=[
                item.length if item is not None and index not in self.errors else 0
                for index, item in enumerate(self.items)
            ],
            truncated=[
                index
                for index, item in enumerate(self.items)
                if item is not None and item.truncated
            ],
            errors=self.errors,
            outputs=arrays,
            timings=self._timings(),
            lengths=lengths,
            indices=indices,
        )

    def _timings(self) -> Timings:
        started = self.started_at if self.started_at is not None else self.prepared_at
        return Timings(
            queue_s=self.queue_s,
            prepare_s=self.prepared_at - self.arrived_at,
            wait_s=max(0.0, started - self.prepared_at),
            compute_s=self.compute_s,
            batch_items=self.batch_items,
            delivery=self.delivered,
        )

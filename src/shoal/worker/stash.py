"""What a worker holds of a unit besides the core's bookkeeping: contents, results, the answer."""

from __future__ import annotations

from typing import cast

from shoal.core.events import UnitHead
from shoal.errors import ComputeFailed, ErrorInfo, ShoalError
from shoal.tasks.encode import invalid_output
from shoal.tasks.outputs import Rows, is_finite, is_ragged
from shoal.tasks.reading import Size
from shoal.values import Features, task_of
from shoal.wire.outputs import joined, to_wires
from shoal.wire.queue import Reply, Timings, Unit
from shoal.worker.prepared import Answer, Prepared


class Stash:
    """One unit's contents from delivery to settlement.

    Attributes:
        size: what it counts, as it came.
        items: as prepared; what stands beside all of them (a query, labels) comes after them.
        rows: of each item, once they are as the caller wants them.
        raw: of items that are finished with all of their unit: sequence -> its rows.
    """

    __slots__ = (
        "ack",
        "answered",
        "arrived_at",
        "batch_items",
        "compute_s",
        "delivered",
        "errors",
        "items",
        "places",
        "prepared_at",
        "queue_s",
        "raw",
        "rows",
        "size",
        "started_at",
        "unit",
    )

    def __init__(
        self, unit: Unit, size: Size, ack: str, delivered: int, now: float, queue_s: float
    ) -> None:
        self.unit = unit
        self.size = size
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
        self.rows: list[Answer | None] = []
        self.raw: dict[int, dict[int, Rows]] = {}
        self.places: list[tuple[int, int]] = []
        self.answered: Reply | None = None

    def prepared(self, items: list[Prepared | ShoalError], now: float) -> list[int]:
        """Keep the prepared items; returns the lengths of their sequences, of which each may run in
        a batch of its own; and one of 0 for an item that failed, or is answered already."""
        self.prepared_at = now
        self.rows = [None] * len(items)
        for index, item in enumerate(items):
            if isinstance(item, ShoalError):
                self.errors[index] = item.info
                self.items.append(None)
            else:
                self.items.append(item)
                self.rows[index] = item.answer
        own = len(self.unit.items)
        if len(items) == own and not any(item is not None and item.parts for item in self.items):
            return [item.runs if item is not None else 0 for item in self.items]
        counts = [1 if item is None else len(item.sequences) for item in self.items]
        self.places = [(n, part) for n, count in enumerate(counts) for part in range(count)]
        return [
            sequence.length if sequence is not None else 0
            for item in self.items
            for sequence in ((None,) if item is None else item.sequences)
        ]

    def wholes(self) -> list[int | None]:
        """Of units whose items are not a sequence each: the item of each, None for what stands beside
        all."""
        own = len(self.unit.items)
        return [item if item < own else None for item, _ in self.places]

    def place(self, sequence: int) -> tuple[int, int]:
        """Which item a sequence of the unit is of, and which one of that item's."""
        return self.places[sequence] if self.places else (sequence, 0)

    def sequence(self, sequence: int) -> Prepared:
        """A sequence of the unit, of an item that did not fail before it ran."""
        index, part = self.place(sequence)
        item = self.items[index]
        assert item is not None, "an item that failed runs in no batch"
        return item.sequences[part]

    def at_fault(self, sequences: list[int]) -> list[int]:
        """The unit's own items that these sequences are of; none: all of it, as with its query."""
        items = list(dict.fromkeys(self.place(sequence)[0] for sequence in sequences))
        return [] if len(self.unit.items) in items else items

    def computed(self, started_at: float, seconds: float, batch_items: int) -> None:
        """A batch with items of this unit is done; the last one counts."""
        self.started_at, self.compute_s, self.batch_items = started_at, seconds, batch_items

    def fail(self, index: int, error: ErrorInfo) -> None:
        """This item will not be answered, for the first reason there was; nor is any without what
        stands beside all."""
        own = len(self.unit.items)
        for item in range(own) if index == own else (index,):
            self.errors.setdefault(item, error)
            self.rows[item] = None

    def fail_all(self, error: ErrorInfo, worker: str) -> None:
        """The unit is answered with this error as a whole."""
        self.answered = Reply(self.unit.id, worker, self.ack, timings=self._timings(), error=error)

    def waits(self, index: int) -> bool:
        """Whether the rows of this item go into `raw`: those that need more, and what
        stands beside all."""
        item = self.items[index]
        return (item is not None and item.finish is not None) or index == len(self.unit.items)

    def finish(self) -> None:
        """Make answers of `raw`, once all rows are there. Slow: not for the event loop."""
        beside = _in_order(self.raw.pop(len(self.unit.items), {}))
        for index, rows in self.raw.items():
            if (
                index not in self.errors
            ):  # else another of its sequences failed, or what stands beside
                try:
                    self.rows[index] = self._finished(index, _in_order(rows), beside)
                except ShoalError as error:
                    self.fail(index, error.info)
        self.raw = {}

    def _finished(self, index: int, rows: list[Rows], beside: list[Rows]) -> Answer:
        """Raises `ShoalError` where these rows answer nothing."""
        item = self.items[index]
        assert item is not None
        assert item.finish is not None, "items without one are finished at once"
        if not all(map(_is_finite, (*rows, *beside))):
            raise invalid_output()
        try:
            answer = item.finish(rows, beside)
        except BaseException as error:
            # Rows of other shapes than were asked, or ids that a tokenizer panics at: whatever it
            # is, the unit must be answered.
            raise ComputeFailed(f"the model's answer cannot be used: {error}") from None
        if not isinstance(answer, bytes) and not _is_finite(answer):
            raise invalid_output()  # too large a number for the type that was asked
        return answer

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
        own = len(self.unit.items)
        if len(self.items) > own:
            self._settle_beside(own)
        errors = self.errors
        good = [rows for rows in self.rows if rows is not None]
        told = bool(good) and isinstance(good[0], bytes)
        vectors = [] if told else cast(list[Rows], good)
        outputs = {
            head: joined([rows[head] for rows in vectors], ragged=is_ragged(head))
            for head in (vectors[0] if vectors else ())
        }
        arrays, lengths, indices = to_wires(outputs)
        return Reply(
            self.unit.id,
            worker,
            self.ack,
            tokens=[
                item.length if item is not None and index not in errors else 0
                for index, item in enumerate(self.items)
            ],
            truncated=[
                index
                for index, item in enumerate(self.items)
                if item is not None and item.truncated
            ],
            errors=errors,
            outputs=arrays,
            timings=self._timings(),
            lengths=lengths,
            indices=indices,
            objects=cast(list[bytes], good) if told else [],
        )

    def _settle_beside(self, own: int) -> None:
        """Its tokens count for every item, and every item is cut where it was."""
        beside = self.items[own]
        del self.items[own:], self.rows[own:]
        if beside is not None:
            self.items = [
                item
                and Prepared(
                    length=item.length + beside.length,
                    truncated=item.truncated or beside.truncated,
                )
                for item in self.items
            ]

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


def _in_order(rows: dict[int, Rows]) -> list[Rows]:
    """Of an item's sequences, the first one's first."""
    return [rows[part] for part in sorted(rows)]


def _is_finite(rows: Rows) -> bool:
    return all(map(is_finite, rows.values()))


def head_of(unit: Unit, estimate: Features, published: float, delivered: int) -> UnitHead:
    """What the core is told of a unit; `published` is in seconds of the loop's clock."""
    return UnitHead(
        id=unit.id,
        request=unit.request,
        model=unit.model,
        estimate=estimate,
        deadline=published + unit.budget_s,
        klass=unit.klass,
        tenant=unit.tenant,
        priority=unit.priority,
        published=published,
        delivered=delivered,
        payload_bytes=unit.payload_bytes,
        generates=task_of(unit.params) == "generate",
    )

"""The life of a unit in a worker, from arrival until the broker confirms the gateway's ack.

    arrived -> prepared (its items on the shelf or in batches) -> replied -> settled

A reply is kept and sent again until the ack is seen: core NATS may lose it. If nobody listens for
longer than a gateway needs to reconnect, the unit is terminated. A unit whose deadline passed or
whose caller is gone is terminated before it costs device time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from shoal.core import events as ev
from shoal.core.events import Instruction, Item, UnitHead, features_of_items
from shoal.core.held import Held, count_unprepared
from shoal.core.models import ModelState
from shoal.core.recent import Recent
from shoal.core.timers import Timers
from shoal.errors import ErrorInfo

#: A gateway that lost the broker reconnects within a second or two; after this it is gone.
UNHEARD_LIMIT_S = 5.0
#: How soon a reply that nobody heard is tried again.
UNHEARD_RETRY_S = 0.5
#: The longest wait for the ack of a reply; the first is `RESEND_S`.
RESEND_MAX_S = 8.0
#: A reply is given up when its request's deadline is this long ago: no gateway waits for it.
MAX_REPLY_AGE_S = 30.0
#: How often time alone makes held units be looked at, for deadlines and resends.
LOOK_S = 0.05
#: Units given back by a worker that cannot serve them wait this long: another asks first.
RETURN_DELAY_S = 0.05
#: How long requests that were called off are remembered, and how many: a unit may be on its way
#: here, or stay on the queue because its gateway could not take it off.
CANCEL_MEMORY_S = 120.0
CANCEL_MEMORY = 100_000


class Units:
    """All units a worker holds."""

    def __init__(self, models: dict[str, ModelState]) -> None:
        self._models = models
        self._held: dict[str, Held] = {}
        self._timers = Timers()  # the deadline of an open unit, the next resend of an answered one
        self._open_of: dict[str, dict[str, Held]] = {}  # model -> its units that are not answered
        self._requests: dict[str, dict[str, None]] = {}  # request -> likewise
        self._gone = Recent(CANCEL_MEMORY_S, CANCEL_MEMORY)
        self._looked_at = 0.0

    def __len__(self) -> int:
        return len(self._held)

    def of_model(self, model: str) -> list[str]:
        """Units of this model that are not answered, in the order in which they came."""
        return list(self._open_of.get(model, ()))

    def models(self) -> Iterable[str]:
        """Models with units that are not answered."""
        return self._open_of.keys()

    def not_started(self) -> list[str]:
        """Units of which no item was sent to a lane."""
        return [u for u, h in self._held.items() if not h.started and not h.replied]

    def get(self, unit: str) -> Held | None:
        return self._held.get(unit)

    # --- coming in --------------------------------------------------------------------------------

    def arrived(self, head: UnitHead, now: float) -> list[Instruction]:
        """Hold a new unit; a redelivery of a held one is answered again or ignored."""
        held = self._held.get(head.id)
        if held is not None:
            return self.reply(held, now) if held.replied else []
        model = self._models[head.model]
        # What must be fetched first may come late, or never: no batch waits for it.
        waiting_s = 0.0 if head.payload_bytes else model.items_s(head.estimate)
        held = self._held[head.id] = Held(head, waiting_s)
        self._open(held)
        model.hold(head.klass, waiting_s)
        count_unprepared(model, head, 1)
        if self._gone.knows(head.request, now):
            return self.terminate(head.id, "cancelled")
        return [ev.Prepare(head.id)]

    def prepared(
        self, unit: str, lengths: list[int], of: Sequence[int | None], now: float
    ) -> list[Instruction]:
        """Put the unit's items on the shelf; if none is left to compute, answer at once."""
        held = self._held.get(unit)
        if held is None or held.prepared or held.replied:
            return []
        held.prepared = True
        head, model = held.head, self._models[held.head.model]
        count_unprepared(model, head, -1)
        new = head.estimate.new_tokens // max(1, head.estimate.items)
        items = [
            Item(unit, place, tokens, new) for place, tokens in enumerate(lengths) if tokens > 0
        ]
        if of:
            held.of = of
            held.failed = frozenset(o for o, n in zip(of, lengths, strict=True) if not n)
            items = [item for item in items if self.wanted(item)]
        held.undone = held.unstarted = len(items)
        model.unhold(head.klass, held.waiting_s)
        if not items:
            held.waiting_s = 0.0
            return self.reply(held, now)
        features = features_of_items(items)
        held.waiting_s = model.items_s(features)
        model.hold(head.klass, held.waiting_s)
        model.unit_seen(model.unbounded_s(features) if new else held.waiting_s)
        model.shelf.add(head, items, now)
        return []

    # --- going out --------------------------------------------------------------------------------

    def started(self, items: list[Item]) -> None:
        """These items are on their way to a lane: they no longer wait."""
        for item in items:
            held = self._held.get(item.unit)
            if held is None:
                continue
            held.started = True
            if held.unstarted > 0:
                share_s = held.waiting_s / held.unstarted
                held.unstarted -= 1
                held.waiting_s -= share_s
                self._models[held.head.model].unhold(held.head.klass, share_s)

    def wait_again(self, items: list[Item]) -> None:
        """A batch of these came back undone."""
        for item in items:
            held = self._held.get(item.unit)
            if held is None:
                continue
            model = self._models[held.head.model]
            again_s = model.items_s(features_of_items([item]))
            held.unstarted += 1
            held.waiting_s += again_s
            model.hold(held.head.klass, again_s)

    def wanted(self, item: Item) -> bool:
        """Whether an answer still needs this item: not if another part of the same whole failed."""
        held = self._computing(item)
        if held is None:
            return False
        if not held.of:
            return True
        whole = held.of[item.index]
        if whole in held.failed or None in held.failed:
            return False
        return whole is not None or any(
            other not in held.failed for other in held.of if other is not None
        )

    def failed(self, item: Item, now: float) -> list[Instruction]:
        """One item failed for good: nothing is computed any more that only its whole needed."""
        held = self._computing(item)
        if held is None:
            return []
        if held.of:
            held.failed |= {held.of[item.index]}
            shelf = self._models[held.head.model].shelf
            needless = shelf.remove(item.unit, lambda other: not self.wanted(other))
            self.started(needless)
            held.undone -= len(needless)
        return self.done(item, now)

    def done(self, item: Item, now: float) -> list[Instruction]:
        """One item of a unit is computed (or needs not be); the last one sends the reply."""
        held = self._computing(item)
        if held is None:
            return []
        held.undone -= 1
        return self.reply(held, now) if held.undone <= 0 else []

    def _computing(self, item: Item) -> Held | None:
        """Its unit, if still to be answered; not one that was dropped meanwhile and came again."""
        held = self._held.get(item.unit)
        return held if held and held.prepared and not held.replied else None

    def reply(self, held: Held, now: float) -> list[Instruction]:
        """Send the answer, and work out when to send it again."""
        self._answered(held, now)
        if not held.unheard:
            held.unheard_since = None
        held.unheard = False
        return [ev.Reply(held.head.id)]

    def fail(self, unit: str, error: ErrorInfo, now: float) -> list[Instruction]:
        """Answer the whole unit with an error, unless it is answered already."""
        held = self._held.get(unit)
        if held is None or held.replied:
            return []
        self._off_shelf(held)
        self._answered(held, now)
        return [ev.Fail(unit, error)]

    def unheard(self, unit: str, now: float) -> list[Instruction]:
        """Nobody listened: try again for as long as a gateway may need to reconnect."""
        held = self._held.get(unit)
        if held is None:
            return []
        held.unheard = True
        if held.unheard_since is None:
            held.unheard_since = now
        if now - held.unheard_since >= UNHEARD_LIMIT_S:
            return self.terminate(unit, "unheard")
        self._timers.set(unit, now + UNHEARD_RETRY_S)
        return []

    # --- leaving ----------------------------------------------------------------------------------

    def settled(self, unit: str) -> list[Instruction]:
        return [ev.Forget(unit)] if self._release(unit) else []

    def terminate(
        self, unit: str, reason: Literal["cancelled", "deadline", "unheard"]
    ) -> list[Instruction]:
        return [ev.Terminate(unit, reason)] if self._release(unit) else []

    def give_back(self, unit: str, delay_s: float = RETURN_DELAY_S) -> list[Instruction]:
        return [ev.Return(unit, delay_s)] if self._release(unit) else []

    def cancelled(self, requests: list[str], now: float) -> list[Instruction]:
        """Drop what these requests have here, and what of theirs is still to come."""
        for request in requests:
            self._gone.add(request, now)
        units = [unit for request in requests for unit in self._requests.get(request, ())]
        return [i for unit in units for i in self.terminate(unit, "cancelled")]

    def _open(self, held: Held) -> None:
        head = held.head
        self._open_of.setdefault(head.model, {})[head.id] = held
        self._requests.setdefault(head.request, {})[head.id] = None
        self._timers.set(head.id, head.deadline)

    def _answered(self, held: Held, now: float) -> None:
        if not held.replied:
            held.replied = True
            self._no_longer_open(held.head)
        self._timers.set(held.head.id, now + held.resend_s)
        held.resend_s = min(RESEND_MAX_S, 2 * held.resend_s)

    def _no_longer_open(self, head: UnitHead) -> None:
        for index, key in ((self._open_of, head.model), (self._requests, head.request)):
            del index[key][head.id]
            if not index[key]:
                del index[key]

    def _release(self, unit: str) -> bool:
        held = self._held.pop(unit, None)
        if held is None:
            return False
        self._timers.drop(unit)
        if not held.replied:
            self._no_longer_open(held.head)
            self._off_shelf(held)
        return True

    def _off_shelf(self, held: Held) -> None:
        head, model = held.head, self._models[held.head.model]
        model.shelf.remove(head.id)
        model.unhold(head.klass, held.waiting_s)
        if not held.prepared:
            count_unprepared(model, head, -1)
        held.waiting_s = 0.0

    # --- time ---------------------------------------------------------------------------------

    def look(self, now: float) -> list[Instruction]:
        """Drop what is past its deadline, send again what was not acked in time."""
        due = self._timers.due(now)
        if not due:
            return []
        self._looked_at = now
        return [i for unit in due for i in self._overdue(self._held[unit], now)]

    def resend(self, now: float) -> list[Instruction]:
        """Send every answer again: those of the last moments may be lost."""
        answered = [held for held in self._held.values() if held.replied]
        return [i for held in answered for i in self._overdue(held, now)]

    def _overdue(self, held: Held, now: float) -> list[Instruction]:
        unit, deadline = held.head.id, held.head.deadline
        if not held.replied:
            return self.terminate(unit, "deadline")
        if now >= deadline + MAX_REPLY_AGE_S:
            return self.terminate(unit, "unheard")
        return self.reply(held, now)

    def next_wake(self) -> float | None:
        """When something is due; what is due at about the same time is looked at together."""
        first = self._timers.first()
        return None if first is None else max(first, self._looked_at + LOOK_S)

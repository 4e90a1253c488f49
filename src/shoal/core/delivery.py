"""The life of a unit in a worker, from arrival until the broker confirms the gateway's ack.

    arrived -> prepared (its items on the shelf or in batches) -> replied -> settled

A reply is kept and sent again until the ack is seen: core NATS may lose it. If nobody listens for
longer than a gateway needs to reconnect, the unit is terminated. A unit whose deadline passed or
whose caller is gone is terminated before it costs device time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import msgspec

from shoal.core import events as ev
from shoal.core.events import Instruction, Item, UnitHead
from shoal.core.models import ModelState
from shoal.errors import ErrorInfo
from shoal.values import features_of

#: A gateway that lost the broker reconnects within a second or two; after this it is gone.
UNHEARD_LIMIT_S = 5.0
#: How soon a reply that nobody heard is tried again.
UNHEARD_RETRY_S = 0.5
#: First wait for the ack of a reply; doubles each time. Round trips take under a millisecond.
RESEND_S = 1.0
RESEND_MAX_S = 8.0
#: A reply is given up when its request's deadline is this long ago: no gateway waits for it.
MAX_REPLY_AGE_S = 30.0
#: How often held units are looked through for deadlines and resends.
SCAN_S = 0.05
#: Units given back wait this long, so that another worker asks first.
RETURN_DELAY_S = 0.05
#: How long cancelled request ids are remembered for units that still sit on the queue.
CANCEL_MEMORY_S = 120.0
CANCEL_MEMORY = 100_000


class Held(msgspec.Struct):
    """One unit in this worker. `waiting_s`: predicted seconds not yet sent to a lane."""

    head: UnitHead
    waiting_s: float
    prepared: bool = False
    started: bool = False
    undone: int = 0
    unstarted: int = 0
    strikes: int = 0
    replied: bool = False
    resend_at: float = 0.0
    resend_s: float = 0.0
    unheard: bool = False  # the latest send; `unheard_since`: the first of those in a row
    unheard_since: float | None = None


class Units:
    """All units a worker holds."""

    def __init__(self, models: dict[str, ModelState]) -> None:
        self._models = models
        self._held: dict[str, Held] = {}
        self._gone = CancelMemory()
        self._scan_at = 0.0

    def __len__(self) -> int:
        return len(self._held)

    def of_model(self, model: str) -> list[str]:
        """Units of this model that are not answered."""
        return [u for u, h in self._held.items() if h.head.model == model and not h.replied]

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
        if not self._held:
            self._scan_at = now + SCAN_S
        model = self._models[head.model]
        # What must be fetched first may come late, or never: no batch waits for it.
        waiting_s = 0.0 if head.payload_bytes else model.items_s(head.estimate)
        held = self._held[head.id] = Held(head, waiting_s)
        model.hold(held.waiting_s)
        _count(model, held, 1)
        if head.request in self._gone:
            return self.terminate(head.id, "cancelled")
        return [ev.Prepare(head.id)]

    def prepared(self, unit: str, lengths: list[int], now: float) -> list[Instruction]:
        """Put the unit's items on the shelf; if none is left to compute, answer at once."""
        held = self._held.get(unit)
        if held is None or held.prepared or held.replied:
            return []
        model = self._models[held.head.model]
        _count(model, held, -1)
        items = [Item(unit, index, tokens) for index, tokens in enumerate(lengths) if tokens > 0]
        held.prepared, held.undone, held.unstarted = True, len(items), len(items)
        model.unhold(held.waiting_s)
        if not items:
            held.waiting_s = 0.0
            return self.reply(held, now)
        held.waiting_s = model.items_s(features_of([item.tokens for item in items]))
        model.hold(held.waiting_s)
        model.unit_seen(held.waiting_s)
        model.shelf.add(held.head.request, items)
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
                self._models[held.head.model].unhold(share_s)

    def done(self, item: Item, now: float) -> list[Instruction]:
        """One item of a unit is computed (or failed for good); the last one sends the reply."""
        held = self._held.get(item.unit)
        if held is None or held.replied:
            return []
        held.undone -= 1
        return self.reply(held, now) if held.undone <= 0 else []

    def reply(self, held: Held, now: float) -> list[Instruction]:
        """Send the answer, and work out when to send it again."""
        held.resend_s = min(RESEND_MAX_S, held.resend_s * 2) if held.replied else RESEND_S
        held.replied, held.resend_at = True, now + held.resend_s
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
        held.replied, held.resend_s, held.resend_at = True, RESEND_S, now + RESEND_S
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
        held.resend_at = now + UNHEARD_RETRY_S
        return []

    # --- leaving ----------------------------------------------------------------------------------

    def settled(self, unit: str) -> list[Instruction]:
        return [ev.Forget(unit)] if self._release(unit) else []

    def terminate(
        self, unit: str, reason: Literal["cancelled", "deadline", "unheard"]
    ) -> list[Instruction]:
        return [ev.Terminate(unit, reason)] if self._release(unit) else []

    def give_back(self, unit: str) -> list[Instruction]:
        return [ev.Return(unit, RETURN_DELAY_S)] if self._release(unit) else []

    def cancelled(self, requests: list[str], now: float) -> list[Instruction]:
        """Drop what these requests have here, and what of theirs is still to come."""
        self._gone.add(requests, now)
        gone = set(requests)
        units = [u for u, h in self._held.items() if h.head.request in gone and not h.replied]
        return [i for unit in units for i in self.terminate(unit, "cancelled")]

    def _release(self, unit: str) -> bool:
        held = self._held.pop(unit, None)
        if held is not None and not held.replied:
            self._off_shelf(held)
        return held is not None

    def _off_shelf(self, held: Held) -> None:
        model = self._models[held.head.model]
        model.shelf.remove(held.head.id)
        model.unhold(held.waiting_s)
        if not held.prepared:
            _count(model, held, -1)
        held.waiting_s = 0.0

    # --- time -------------------------------------------------------------------------------------

    def scan(self, now: float, *, everything: bool = False) -> list[Instruction]:
        """Drop what is past its deadline, send again what was not acked in time."""
        if now < self._scan_at and not everything:
            return []
        self._scan_at = now + SCAN_S
        out: list[Instruction] = []
        for unit, held in list(self._held.items()):
            if held.replied:
                if now >= held.head.deadline + MAX_REPLY_AGE_S:
                    out += self.terminate(unit, "unheard")
                elif everything or now >= held.resend_at:
                    out += self.reply(held, now)
            elif now >= held.head.deadline:
                out += self.terminate(unit, "deadline")
        return out

    def next_wake(self) -> float | None:
        return self._scan_at if self._held else None


def _count(model: ModelState, held: Held, step: int) -> None:
    """One unit more or less that is not prepared."""
    if held.head.payload_bytes:
        model.fetching += step
    else:
        model.preparing += step


class CancelMemory:
    """Request ids whose callers are gone, bounded in time and number."""

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()

    def add(self, requests: list[str], now: float) -> None:
        for request in requests:
            self._until[request] = now + CANCEL_MEMORY_S
        while self._until and (
            len(self._until) > CANCEL_MEMORY or next(iter(self._until.values())) <= now
        ):
            self._until.popitem(last=False)

    def __contains__(self, request: str) -> bool:
        return request in self._until

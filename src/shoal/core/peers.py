"""What the other gateways have, from the newest pulse of each.

Decides how their pulses add up and when a gateway that is silent no longer counts. It must not
know what is made of the sums.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from shoal.core.admission_events import Outstanding
from shoal.values import TrafficClass

#: Who was silent for this long is taken for gone; several periods of a pulse.
PULSE_FRESH_S = 5.0
#: How often it is looked for those.
LOOK_EVERY_S = 0.5

_UNCOUNTED = 1 << 32


class Others(msgspec.Struct, frozen=True):
    """What the other gateways have of one model, in one class.

    Attributes:
        gateways: how many of them have any.
        queued_s: predicted seconds of it on the queue.
        waiting_s: by tenant, those that wait in the gateways.
    """

    gateways: int = 0
    queued_s: float = 0.0
    requests: int = 0
    waiting_s: dict[str, float] = {}


class Peers:
    """The newest pulse of each other gateway."""

    def __init__(self) -> None:
        self._pulses: dict[str, tuple[float, Outstanding]] = {}
        self._sums: dict[tuple[str, TrafficClass], Others] = {}
        self._looked = 0.0

    def heard(self, gateway: str, told: Outstanding, now: float) -> None:
        """Take in a pulse."""
        self._pulses[gateway] = (now, told)
        self._sums.clear()

    def forget_silent(self, now: float) -> None:
        """Drop gateways that have been silent for too long; call it often."""
        if not self._pulses or now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        silent = [g for g, (at, _) in self._pulses.items() if now - at > PULSE_FRESH_S]
        for gateway in silent:
            del self._pulses[gateway]
            self._sums.clear()

    def of(self, model: str, klass: TrafficClass) -> Others:
        """The sums over all of them."""
        key = (model, klass)
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = self._work(model) if klass == "work" else self._bulk(model)
        return sums

    def _work(self, model: str) -> Others:
        said = [told for _, told in self._pulses.values() if model in told.outstanding_s]
        return Others(
            len(said),
            sum(told.queued_s.get(model, 0.0) for told in said),
            sum(told.requests.get(model, 0) for told in said),
            _added(told.waiting_s.get(model, {}) for told in said),
        )

    def _bulk(self, model: str) -> Others:
        """As no pulse counts bulk requests, all of a tenant's come before a new one of it."""
        said = [told for _, told in self._pulses.values() if model in told.bulk_s]
        waiting_s = _added(told.bulk_waiting_s.get(model, {}) for told in said)
        outstanding_s = sum(told.bulk_s[model] for told in said)
        queued_s = max(0.0, outstanding_s - sum(waiting_s.values()))
        return Others(len(said), queued_s, _UNCOUNTED if said else 0, waiting_s)


def _added(said: Iterable[dict[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for seconds_of in said:
        for tenant, seconds in seconds_of.items():
            sums[tenant] = sums.get(tenant, 0.0) + seconds
    return sums

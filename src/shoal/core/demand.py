"""How much work waits for each model, as all gateways tell it, level-triggered.

The newest pulse of each gateway counts; one that fell silent is forgotten. A lost pulse costs a
period. Knows nothing of where models are.
"""

from __future__ import annotations

import msgspec

from shoal.core.events import DemandSeen

#: A gateway pulses at least once a second; after three it is gone, or cut off.
FORGET_S = 3.5


class Wanted(msgspec.Struct):
    """Predicted seconds that wait for one model."""

    interactive_s: float = 0.0
    bulk_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.interactive_s + self.bulk_s


class Demand:
    """The sum over gateways."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, DemandSeen]] = {}
        self._sums: dict[str, Wanted] = {}

    def seen(self, event: DemandSeen, now: float) -> None:
        self._told[event.gateway] = (now, event)
        self._add_up()

    def forget_silent(self, now: float) -> None:
        """Drop the gateways that were not heard of lately."""
        silent = [gateway for gateway, (at, _) in self._told.items() if now - at > FORGET_S]
        for gateway in silent:
            del self._told[gateway]
        if silent:
            self._add_up()

    def models(self) -> dict[str, Wanted]:
        """Every model that anything waits for."""
        return self._sums

    def seconds(self, model: str) -> float:
        wanted = self._sums.get(model)
        return wanted.seconds if wanted is not None else 0.0

    def _add_up(self) -> None:
        self._sums = {}
        for _, told in self._told.values():
            for model, seconds in told.outstanding_s.items():
                if seconds > 0:
                    self._sums.setdefault(model, Wanted()).interactive_s += seconds
            for model, seconds in told.bulk_s.items():
                if seconds > 0:
                    self._sums.setdefault(model, Wanted()).bulk_s += seconds

"""The other workers of the pool, as their pulses tell: who has copies of what.

Copies are counted as they change, so that a question costs nothing however many peers there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal.core.events import PeerModel
from shoal.core.pulsing import PULSE_S, silent_s


class Pool:
    """Copies of each model on all other workers, those on their way included.

    Attributes:
        lanes: of all other workers together.
    """

    def __init__(self) -> None:
        self._peers: dict[str, Mapping[str, PeerModel]] = {}
        self._heard_at: dict[str, float] = {}
        self._copies: dict[str, int] = {}
        self._lanes: dict[str, int] = {}
        self.lanes = 0
        self._look_at = 0.0

    def __bool__(self) -> bool:
        """Whether there is any other worker."""
        return bool(self._peers)

    @property
    def workers(self) -> int:
        return len(self._peers)

    @property
    def served(self) -> int:
        """Models of which there is any copy."""
        return len(self._copies)

    def seen(
        self, worker: str, models: Mapping[str, PeerModel], now: float, lanes: int = 1
    ) -> bool:
        """Take in a pulse; whether it tells anything new."""
        if models == self._peers.get(worker) and lanes == self._lanes[worker]:
            self._heard_at[worker] = now
            return False
        self.lost(worker)
        self._peers[worker], self._heard_at[worker], self._lanes[worker] = models, now, lanes
        self.lanes += lanes
        self._count(models, 1)
        return True

    def lost(self, worker: str) -> None:
        self._heard_at.pop(worker, None)
        self.lanes -= self._lanes.pop(worker, 0)
        self._count(self._peers.pop(worker, {}), -1)

    def forget_silent(self, now: float) -> list[str]:
        """Workers that were not heard of for so long are gone, or cut off; call it often."""
        if now < self._look_at:
            return []
        self._look_at = now + PULSE_S
        long_s = silent_s(1 + len(self._peers))
        silent = [worker for worker, at in self._heard_at.items() if now - at > long_s]
        for worker in silent:
            self.lost(worker)
        return silent

    def copies(self, model: str) -> int:
        return self._copies.get(model, 0)

    def holding(self, model: str) -> Iterator[str]:
        """The workers that have a copy, or are about to."""
        for worker, models in self._peers.items():
            told = models.get(model)
            if told is not None and told.state in ("resident", "loading"):
                yield worker

    def _count(self, models: Mapping[str, PeerModel], sign: int) -> None:
        copies = self._copies
        for name, model in models.items():
            if model.state == "resident":
                change = sign * model.lanes if model.lanes > 1 else sign
            elif model.state == "loading":
                change = sign
            else:
                continue
            left = copies[name] = copies.get(name, 0) + change
            if not left:
                del copies[name]

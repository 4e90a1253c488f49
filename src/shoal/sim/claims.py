"""The key-value bucket of claims: one worker at a time changes the copies of a model."""

from __future__ import annotations

from shoal.sim.clock import Clock


class Claims:
    """Who has which claim, and until when."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, tuple[str, float]] = {}

    def take(self, model: str, worker: str, ttl_s: float) -> bool:
        """Whether `worker` has the claim now; its own is prolonged."""
        holder, until = self._held.get(model, ("", 0.0))
        if holder != worker and until > self._clock.now:
            return False
        self._held[model] = (worker, self._clock.now + ttl_s)
        return True

    def drop(self, model: str, worker: str) -> None:
        """Let others have it, if it is this worker's."""
        if self._held.get(model, ("", 0.0))[0] == worker:
            del self._held[model]

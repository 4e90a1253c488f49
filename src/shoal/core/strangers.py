"""Models that gateways have work for and that this worker will never load: when it says so, and why.

Where all workers of a pool say it, callers are told at once instead of at their deadline. A worker that
has the model may be starting anew, so for a while nothing is said. It must not know lanes or gateways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

#: All workers should have the same cards, so one without a card has most likely been forgotten. One that
#: is started again is there in less.
NO_CARD_S = 10.0
#: Workers that load nothing on demand may each have other models: as long as requests wait where no
#: worker lives (`worker_wait_s`).
NOT_LOADED_S = 30.0


class Stranger(msgspec.Struct, frozen=True):
    """A model that is not had here; `until`: when this is looked at anew."""

    reason: str
    until: float


class Strangers:
    """All of one worker, `worker` by name. What was said once counts for `cooldown_s`."""

    def __init__(self, worker: str, cooldown_s: float) -> None:
        self._worker = worker
        self._cooldown_s = cooldown_s
        self._since: dict[str, float] = {}
        self._said: dict[str, Stranger] = {}

    def look(
        self,
        wanted: Iterable[str],
        has_card: Callable[[str], bool],
        elsewhere: Callable[[str], int],
        now: float,
    ) -> dict[str, Stranger]:
        """What is to be said of whom.

        `wanted`: models with work that are not loaded here. `elsewhere`: lanes that have one.
        """
        self._since = {m: self._since.get(m, now) for m in wanted if not elsewhere(m)}
        self._said = {
            m: said for m, said in self._said.items() if now < said.until and not elsewhere(m)
        }
        for model, since in self._since.items():
            carded = has_card(model)
            if model not in self._said and now - since >= (NOT_LOADED_S if carded else NO_CARD_S):
                self._said[model] = Stranger(self._why(carded), now + self._cooldown_s)
        return self._said

    def _why(self, carded: bool) -> str:
        if carded:
            return (
                f"worker {self._worker} loads nothing on demand, and nobody has it: add it to the "
                "`models` of a worker, or set `on_demand`"
            )
        return (
            f"worker {self._worker} has no card of that name, and nobody has it: put it into the "
            "`catalog` of every worker, and start them anew"
        )

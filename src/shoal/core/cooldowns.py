"""When a model whose load failed is tried again: about once a cooldown, all workers together.

One worker's failure may be its machine's own, so others may still try. What two workers failed at
is taken for the model's fault: then nobody tries before the cooldown is over, and who tries first
tries for all, as the others hear of it. Each round of failures makes the cooldown twice as long,
until the model is resident anywhere, or its files are others. What callers are told of it is said here.
It must not know lanes, demand or why a load fails.
"""

from __future__ import annotations

from math import ceil
from zlib import crc32

import msgspec

from shoal.errors import ModelLoadFailed, RuntimeMissing

#: Workers whose failure makes it the model's.
WITNESSES = 2
#: Longest cooldown, unless the setting is longer: files that were mended are found within minutes.
LONGEST_S = 600.0
#: Between the tries of two workers, on average: a small load and a pulse that tells how it went.
STEP_S = 1.0
_MOST_DOUBLINGS = 16


def load_error(model: str, reason: str, again_s: float, *, unserved: bool) -> ModelLoadFailed:
    """What the callers of a model that cannot be loaded are told; it may be tried in `again_s`.

    `unserved`: for want of the packages of its runtime.
    """
    kind = RuntimeMissing if unserved else ModelLoadFailed
    left_s = max(0, ceil(again_s))
    when = f"; it is not tried again for {left_s} s" if left_s else ""
    return kind(f"model '{model}' cannot be loaded: {reason}{when}", retry_after_s=left_s or None)


class _Trouble(msgspec.Struct):
    """`failures`: of each worker that is there, how often it failed; `shared`: two once did.

    `until`: when the round's cooldown ends.
    """

    failures: dict[str, int] = {}
    shared: bool = False
    rounds: int = 0
    until: float = 0.0


class Cooldowns:
    """All models of one worker that could not be loaded, here or elsewhere.

    `worker`: its name, other than any other's. `base_s`: the cooldown after the first failure.
    """

    def __init__(self, worker: str, base_s: float) -> None:
        self._worker = worker
        self.base_s = base_s
        self._troubles: dict[str, _Trouble] = {}

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._troubles)

    def failed(self, model: str, failures: int, now: float) -> float:
        """It failed here, for so many times in a row; until when it is not to be tried here."""
        return self._until(model, self._note(model, self._worker, failures, now))

    def heard(self, model: str, worker: str, failures: int, now: float) -> float | None:
        """Another worker tells that it failed so many times; None: nothing follows from that."""
        known = self._troubles.get(model)
        if known is not None and known.failures.get(worker, 0) >= failures:
            return None
        trouble = self._note(model, worker, failures, now)
        return self._until(model, trouble) if len(trouble.failures) >= WITNESSES else None

    def well(self, model: str) -> bool:
        """It is resident here or elsewhere, or its files are others than those that could not be
        loaded; whether it was taken for broken until now."""
        trouble = self._troubles.pop(model, None)
        return trouble is not None and trouble.shared

    def gone(self, worker: str) -> None:
        """It left, perhaps to start anew under another name: it is no witness any more."""
        for trouble in self._troubles.values():
            trouble.failures.pop(worker, None)

    def _note(self, model: str, worker: str, failures: int, now: float) -> _Trouble:
        trouble = self._troubles.setdefault(model, _Trouble())
        trouble.failures[worker] = failures
        trouble.shared = trouble.shared or len(trouble.failures) >= WITNESSES
        if now >= trouble.until:
            most_s = max(self.base_s, LONGEST_S)
            doubled_s = self.base_s * 2.0 ** min(trouble.rounds, _MOST_DOUBLINGS)
            trouble.rounds += 1
            trouble.until = now + min(most_s, doubled_s)
        return trouble

    def _until(self, model: str, trouble: _Trouble) -> float:
        """The end of the cooldown; of several workers each has a moment of its own after it.

        Those that failed come last: it may be their machines' fault after all.
        """
        count = len(trouble.failures)
        if count < WITNESSES:
            return trouble.until
        drawn = crc32(f"{self._worker} {model} {trouble.rounds}".encode()) / 2**32
        late = self._worker in trouble.failures
        return trouble.until + STEP_S * count * (drawn + late)

"""Claims: whoever changes the copies of a model, up or down, holds its claim meanwhile.

So that a crowd never loads the same model at once, nor lets go of all its copies at once. A claim
ends by itself after its time to live, which frees what a worker that died had; it is renewed
meanwhile, and kept a little longer than the change takes, until all peers have heard of it. An ask
that nobody answers counts as refused, so that nothing ever waits for a broker for ever.
"""

from __future__ import annotations

import msgspec

from shoal.core.events import Claim, Instruction, Unclaim

#: A worker that dies holds others up for this long at most.
TTL_S = 10.0
#: Two renewals may be lost before a claim ends.
RENEW_S = 3.0
#: An answer takes a millisecond; the connection gives up after 5 s.
ANSWER_S = 6.0
#: Workers pulse every half second: by then each has heard of the change, if one pulse was lost.
LINGER_S = 1.5


class _Held(msgspec.Struct):
    """`answer_by`: when an ask counts as refused; `until`: when a lingering claim is given up."""

    answer_by: float | None
    renew_at: float
    granted: bool = False
    until: float | None = None

    @property
    def ends_at(self) -> float:
        """When another may have it, as this worker was stopped when it was to be renewed."""
        return self.renew_at - RENEW_S + TTL_S

    @property
    def due_at(self) -> float:
        """When something is to be done about it next."""
        later = self.renew_at if self.until is None else self.until
        return later if self.answer_by is None else self.answer_by


class Claims:
    """The claims of one worker."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def ask(self, model: str, now: float) -> list[Instruction]:
        """Become the one who changes this model's copies; one that lingers is simply kept."""
        held = self._held.get(model)
        if held is not None:
            held.until = None
            return []
        self._held[model] = _Held(now + ANSWER_S, now + RENEW_S)
        return [Claim(model, TTL_S)]

    def holds(self, model: str) -> bool:
        held = self._held.get(model)
        return held is not None and held.granted

    def asked(self, model: str) -> bool:
        """Whether it is ours, or may yet be."""
        return model in self._held

    def granted(self, model: str) -> list[Instruction]:
        """The answer came; one that is no longer awaited is given back."""
        held = self._held.get(model)
        if held is None:
            return [Unclaim(model)]
        held.granted, held.answer_by = True, None
        return []

    def refused(self, model: str) -> None:
        self._held.pop(model, None)

    def release(self, model: str, now: float, *, linger: bool) -> list[Instruction]:
        """The change is made (then `linger`, until peers know), or will not be."""
        held = self._held.get(model)
        if held is None:
            return []
        if linger and held.granted:
            held.until = now + LINGER_S
            return []
        del self._held[model]
        return [Unclaim(model)] if held.granted else []

    def release_all(self) -> list[Instruction]:
        """Let others have every claim, at once."""
        held, self._held = self._held, {}
        return [Unclaim(model) for model, claim in held.items() if claim.granted]

    def due(self, now: float) -> list[Instruction]:
        """Renewals, and the end of what lingered, was never answered or has ended by itself."""
        out: list[Instruction] = []
        for model, held in list(self._held.items()):
            unanswered = held.answer_by is not None and now >= held.answer_by
            if unanswered or now >= held.ends_at:
                del self._held[model]
            elif held.until is not None and now >= held.until:
                del self._held[model]
                out.append(Unclaim(model))
            elif held.granted and held.until is None and now >= held.renew_at:
                held.renew_at, held.answer_by = now + RENEW_S, now + ANSWER_S
                out.append(Claim(model, TTL_S))
        return out

    def next_wake(self) -> float | None:
        return min((held.due_at for held in self._held.values()), default=None)

"""What the workers say of themselves: who is ready, and how fast each model is answered.

Decides how the newest pulses of all workers add up. It must not know requests or sockets.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from shoal.catalog.card import Card
from shoal.core.admission_events import Rate
from shoal.core.cost import LEAST_SEED, NEW_TOKENS
from shoal.core.pulsing import silent_s
from shoal.values import BYTES_PER_TOKEN
from shoal.wire.queue import ModelPulse, WorkerPulse

_RANK = {"failed": 1, "loading": 2, "resident": 3}


class Fleet:
    """The newest pulse of each worker of one pool."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._pulses: dict[str, tuple[float, WorkerPulse]] = {}
        self._rates: dict[str, Rate] = {}
        self._bytes: dict[str, int] = {}  # of models that were resident, also once they went
        self._runtimes: dict[str, str] = {}  # likewise

    def heard(self, pulse: WorkerPulse, now: float) -> None:
        """Take in a pulse; those of other pools do not count."""
        if pulse.pool == self._pool:
            self._pulses[pulse.worker] = (now, pulse)
            self._rates.clear()
            self._bytes |= {name: said.bytes for name, said in pulse.models.items() if said.bytes}
            self._runtimes |= {name: m.runtime for name, m in pulse.models.items() if m.runtime}

    def forget_silent(self, now: float) -> bool:
        """Drop workers that have been silent for too long; whether there were any."""
        long_s = silent_s(len(self._pulses))
        silent = [w for w, (at, _) in self._pulses.items() if now - at > long_s]
        for worker in silent:
            del self._pulses[worker]
        if silent:
            self._rates.clear()
        return bool(silent)

    @property
    def workers(self) -> int:
        return len(self._pulses)

    @property
    def working(self) -> int:
        """Workers that take more work, ready or not yet."""
        return sum(not p.draining for _, p in self._pulses.values())

    @property
    def ready(self) -> bool:
        """Whether any worker did a forward pass lately and takes more work."""
        return any(p.ready and not p.draining for _, p in self._pulses.values())

    def states(self) -> dict[str, str]:
        """Model -> ``resident``, ``loading`` or ``failed``, the best of all workers."""
        best: dict[str, str] = {}
        for _, pulse in self._pulses.values():
            for model, said in pulse.models.items():
                if _RANK.get(said.state, 0) >= _RANK.get(best.get(model, ""), 0):
                    best[model] = said.state
        return best

    def copies(self, model: str) -> tuple[int, int]:
        """Lanes that hold a model, over all workers, and what its largest copy holds, or one held."""
        said = [p.models[model] for _, p in self._pulses.values() if model in p.models]
        held = max((m.bytes for m in said), default=0)
        return sum(m.lanes for m in said), held or self._bytes.get(model, 0)

    def runtime(self, model: str) -> str | None:
        """The kind of runtime that computes or computed a model, as was said last."""
        return self._runtimes.get(model)

    def rate(self, card: Card) -> Rate:
        """How fast `card` is answered; the card's own first guess before any worker has it."""
        rate = self._rates.get(card.name)
        if rate is None:
            rate = self._rates[card.name] = self._rate(card)
        return rate

    def _rate(self, card: Card) -> Rate:
        pulses = [(at, pulse) for at, pulse in self._pulses.values() if not pulse.draining]
        said = [pulse.models.get(card.name) for _, pulse in pulses]
        resident = [model for model in said if model is not None and model.state == "resident"]
        if resident:
            return _mean(resident, card)
        return replace(
            _guess(card),
            failed=_failure(said),
            unserved=all(model is not None and model.unserved for model in said),
            again_at=min(
                [at + m.again_s for (at, _), m in zip(pulses, said, strict=True) if m], default=0.0
            ),
        )


def _guess(card: Card) -> Rate:
    """What the card says. A full batch of texts is as many as are generated at once."""
    profile = card.profile("default")
    seed, batch_s = profile.cost, profile.max_batch_seconds
    longest_s = seed.item_s + card.max_tokens * (seed.token_s + card.max_tokens * seed.square_s)
    rate = Rate(
        seed.token_s / BYTES_PER_TOKEN, seed.item_s, batch_s=batch_s, longest_item_s=longest_s
    )
    if card.tasks.generate is None:
        return rate
    token_s = max(LEAST_SEED["new_tokens"], seed.new_token_s)
    rate = replace(rate, seconds_per_new_token=token_s, new_tokens=NEW_TOKENS)
    return replace(rate, batch_s=max(batch_s, profile.sequences * rate.seconds(0, 1)))


def _failure(said: list[ModelPulse | None]) -> str | None:
    """Why no worker can load a model; None while one is at it or has not tried."""
    reasons = [
        model.reason or "no reason given"
        for model in said
        if model is not None and model.state == "failed"
    ]
    return reasons[0] if reasons and len(reasons) == len(said) else None


def _mean(resident: list[ModelPulse], card: Card) -> Rate:
    """The mean over lanes: each lane takes about its share.

    How long a text becomes is weighed by what its tokens cost, so that their product is a mean too; a
    worker that does not tell has it in what an item costs.
    """
    lanes = sum(max(1, model.lanes) for model in resident)

    def mean(of: Callable[[ModelPulse], float]) -> float:
        return sum(of(model) * max(1, model.lanes) for model in resident) / lanes

    new_token_s = mean(lambda m: m.seconds_per_new_token)
    return Rate(
        seconds_per_byte=mean(lambda m: m.seconds_per_byte),
        seconds_per_item=mean(lambda m: m.seconds_per_item - _new_s(m)),
        lanes=lanes,
        longest_item_s=max(
            m.longest_item_s - _new_s(m) if m.longest_item_s is not None else float("inf")
            for m in resident
        ),
        batch_s=max(m.batch_s for m in resident) or card.profile("default").max_batch_seconds,
        seconds_per_new_token=new_token_s,
        new_tokens=mean(_new_s) / new_token_s if new_token_s else 0.0,
    )


def _new_s(model: ModelPulse) -> float:
    """What of an item's seconds is for the text that it is expected to become."""
    return min(
        model.seconds_per_new_token * model.new_tokens,
        model.seconds_per_item,
        model.seconds_per_item if model.longest_item_s is None else model.longest_item_s,
    )

"""A crowd's first requests to a cold model, load that rises beyond one worker, and broken files.

One deployment with three workers sees all three; what happened is read from its workers' logs.
"""

from __future__ import annotations

import time

import httpx
import msgspec

from shoal.bench.benchmark import Tell
from shoal.bench.cards import timed
from shoal.bench.cold.asking import Answers, ask
from shoal.bench.packing.history import Event, History, read
from shoal.bench.serving import Serving

PINNED, COLD, HOT, BROKEN = "pinned", "cold", "hot", "broken"
REASON = "the weights end in the middle of a tensor"
PATIENCE_S = 70.0
#: Items run one after the other and take 50 ms each: one worker answers 20 a second.
ITEM_S = 0.05


class Plan(msgspec.Struct, frozen=True):
    """What to run. `rise_s`: how long the load rises, from half of one worker's capacity to
    `most` times it; `insist_s`: how long a broken model is asked for, ten times a second."""

    crowd: int = 200
    load_s: float = 3.0
    rise_s: float = 40.0
    most: float = 2.2
    insist_s: float = 10.0
    cooldown_s: float = 4.0
    workers: int = 3
    gateways: int = 2


class Crowd(msgspec.Struct, frozen=True):
    """All at once to a model that nobody has."""

    requests: int
    answered: int
    loads: int
    load_s: float
    first_s: float
    last_s: float


class Rise(msgspec.Struct, frozen=True):
    """Load that one worker cannot answer. `second_s`: when a second worker had it; `rate`: what
    came then, in requests a second; `waited`: requests without an answer at that moment."""

    requests: int
    answered: int
    copies: int
    second_s: float | None
    rate: float
    waited: int
    last_s: float


class Broken(msgspec.Struct, frozen=True):
    """A model that cannot be loaded. `allowed`: loads that its cooldown allows on all workers."""

    requests: int
    status_502: int
    reason: str
    loads: int
    allowed: int


class Result(msgspec.Struct, frozen=True):
    crowd: Crowd
    rise: Rise
    broken: Broken

    @property
    def problems(self) -> list[str]:
        """What must not have happened."""
        crowd, rise, broken = self.crowd, self.rise, self.broken
        wrong = {
            f"{crowd.loads} loads for one crowd": crowd.loads != 1,
            f"{crowd.requests - crowd.answered} of the crowd unanswered": (
                crowd.requests != crowd.answered
            ),
            "no second worker loaded the hot model": rise.copies < 2,
            f"{rise.requests - rise.answered} unanswered while load rose": (
                rise.requests != rise.answered
            ),
            f"{broken.requests - broken.status_502} answers for a broken model were no 502": (
                broken.requests != broken.status_502
            ),
            f"the 502 does not say why: {broken.reason}": REASON not in broken.reason,
            f"{broken.loads} loads of a broken model": broken.loads > broken.allowed,
        }
        return [what for what, is_so in wrong.items() if is_so]


def measure(plan: Plan, tell: Tell) -> Result:
    """Raises `Unavailable` if the deployment does not start."""
    with _serving(plan) as serving:
        tell(f"{plan.crowd} requests at once to a model that loads for {plan.load_s:g} s")
        crowd = _crowd(plan, serving)
        tell(f"load that rises for {plan.rise_s:g} s")
        rise = _rise(plan, serving)
        tell(f"a broken model, asked for {plan.insist_s:g} s")
        return Result(crowd, rise, _broken(plan, serving))


def _serving(plan: Plan) -> Serving:
    return Serving(
        [PINNED],
        cards={
            PINNED: timed(PINNED),
            COLD: timed(COLD, load_s=plan.load_s),
            HOT: timed(HOT, item_s=ITEM_S, load_s=1.0),
            BROKEN: timed(BROKEN, load_s=0.2, load_error=REASON),
        },
        workers=plan.workers,
        gateways=plan.gateways,
        lanes="cpu",
        threads=1,
        load_cooldown_s=plan.cooldown_s,
        log_format="json",
    )


def _events(serving: Serving, event: str, model: str) -> list[Event]:
    history = History(read(serving.log()))
    return [e for e in history.events if e.event == event and e.model == model]


def _crowd(plan: Plan, serving: Serving) -> Crowd:
    answers = ask(serving, [(0.0, COLD)] * plan.crowd, PATIENCE_S)
    took = answers.of(COLD)
    loads = len(_events(serving, "loaded", COLD))
    return Crowd(plan.crowd, answers.answered, loads, plan.load_s, took[0], took[-1])


def _rise(plan: Plan, serving: Serving) -> Rise:
    capacity = 1 / ITEM_S
    moments = rising(capacity / 2, plan.most * capacity, plan.rise_s)
    answers = ask(serving, [(moment, HOT) for moment in moments], PATIENCE_S)
    loaded = _events(serving, "loaded", HOT)
    second_s = loaded[1].time - answers.began_at if len(loaded) > 1 else None
    return Rise(
        requests=len(moments),
        answered=answers.answered,
        copies=len(loaded),
        second_s=second_s,
        rate=_rate(moments, second_s),
        waited=_waiting(answers, second_s),
        last_s=answers.of(HOT)[-1],
    )


def rising(first: float, last: float, seconds: float) -> list[float]:
    """Moments of requests whose rate grows evenly from `first` to `last` a second."""
    moments = []
    now = 0.0
    while now < seconds:
        moments.append(now)
        now += 1 / (first + (last - first) * now / seconds)
    return moments


def _rate(moments: list[float], at: float | None) -> float:
    """Requests in the second before."""
    return float("nan") if at is None else float(sum(at - 1 <= moment < at for moment in moments))


def _waiting(answers: Answers, at: float | None) -> int:
    return 0 if at is None else len(answers.of(HOT, at, at))


def _broken(plan: Plan, serving: Serving) -> Broken:
    moments = [number / 10 for number in range(int(plan.insist_s * 10))]
    began = time.time()
    answers = ask(serving, [(moment, BROKEN) for moment in moments], PATIENCE_S)
    answer = httpx.post(f"{serving.url}/v1/encode/{BROKEN}", json={"items": ["x"]}, timeout=60)
    loads = len(_events(serving, "load_failed", BROKEN))
    periods = 1 + int((time.time() - began) / plan.cooldown_s)
    return Broken(
        requests=len(moments),
        status_502=answers.errors.get("502", 0),
        reason=answer.text,
        loads=loads,
        allowed=periods + 1,  # one worker tries for all; at first another one confirms
    )

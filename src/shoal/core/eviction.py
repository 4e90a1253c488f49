"""Who makes room: what a model's place is worth, and which set of models is let go.

GreedyDual-Size-Frequency (Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-
Frequency Caching Policy", HP Labs 1998) with load seconds as the cost and measured bytes as the
size; by recency instead, to be compared with. Hysteresis is in seconds: each candidate has a price,
the seconds that another model must have waited before it may take this one's place.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Policy = Literal["gdsf", "lru"]

#: A model that is in demand keeps its place for this many times the seconds of the two loads that
#: a change costs: at most a fifth of a lane's time goes into loads when all its models are wanted.
TURN_LOADS = 4.0
#: ... but not longer than this and the two loads: a request may wait for 60 s by default, and one
#: for a cold model must be answered within that.
PATIENCE_S = 20.0
#: Other copies keep up while no more than this waits for each: half of what makes a model hot
#: (`placement`), so that it does not spread again at once.
KEEPS_UP_S = 0.5


class Candidate(msgspec.Struct, frozen=True):
    """A resident model that may be let go.

    Attributes:
        price_s: see the module; infinite while its turn is not over.
        wanted: work waits for it or runs, and other copies would not keep up with it.
        worth, value: by GreedyDual-Size-Frequency, per byte and in all.
    """

    model: str
    bytes: int
    price_s: float
    wanted: bool
    worth: float
    value: float
    used_at: float


class Standing(msgspec.Struct, frozen=True):
    """How much a resident model is wanted: seconds that wait for it over all gateways, how long it
    has been resident and not used, and whether others hold copies."""

    load_s: float
    demand_s: float
    resident_s: float
    idle_s: float
    copies: int
    busy: bool


def redundant(it: Standing) -> bool:
    """Whether this copy saves no load: the others would keep up with what waits for the model."""
    return it.copies > 1 and it.demand_s <= KEEPS_UP_S * (it.copies - 1)


def turn_s(load_s: float, other_load_s: float) -> float:
    """How long a model in demand keeps its place before another one in demand may have it."""
    loads_s = load_s + other_load_s
    return min(TURN_LOADS * loads_s, PATIENCE_S + loads_s)


def price_s(it: Standing, other_load_s: float) -> float:
    """Seconds the other must have waited (its age and its work together) to take this one's place.

    Nobody wants it now: what its load took, less the time it has been idle, as in the ski-rental
    problem: waiting for as long as a mistake would cost is at most twice the best. In demand: its
    turn and its own waiting work, within `PATIENCE_S`; with copies elsewhere one load of each.
    """
    if not it.busy and it.demand_s <= 0:
        return max(0.0, it.load_s - it.idle_s)
    loads_s = it.load_s + other_load_s
    turn = turn_s(it.load_s, other_load_s) if it.copies <= 1 else loads_s
    if it.resident_s < turn:
        return float("inf")
    return min(turn + it.demand_s / max(1, it.copies), PATIENCE_S + loads_s)


def choose(candidates: list[Candidate], need: int, policy: Policy) -> list[Candidate] | None:
    """The cheapest set that frees `need` bytes, and little more; None if all together do not.

    What nobody wants now goes before what somebody does.
    """
    if policy == "lru":
        return _first(sorted(candidates, key=lambda c: (c.wanted, c.used_at, c.model)), need)
    chosen = _first(sorted(candidates, key=lambda c: (c.wanted, c.worth, c.used_at, c.model)), need)
    if chosen is None:
        return None
    for candidate in sorted(chosen, key=lambda c: (c.wanted, c.value), reverse=True):
        if sum(c.bytes for c in chosen) - candidate.bytes >= need:
            chosen.remove(candidate)
    # The densest order is far off where one model of the right size is worth less than several.
    alone = [[c] for c in candidates if c.bytes >= need]
    return min([chosen, *alone], key=_cost)


def _cost(chosen: list[Candidate]) -> tuple[bool, float, int, list[tuple[float, str]]]:
    wanted = any(c.wanted for c in chosen)
    equals = sorted((c.used_at, c.model) for c in chosen)  # so that the same history repeats
    return wanted, sum(c.value for c in chosen), sum(c.bytes for c in chosen), equals


def _first(ordered: list[Candidate], need: int) -> list[Candidate] | None:
    chosen: list[Candidate] = []
    for candidate in ordered:
        if need <= 0:
            break
        chosen.append(candidate)
        need -= candidate.bytes
    return chosen if need <= 0 else None

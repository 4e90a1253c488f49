"""Every way a request may come to a worker, by name: pulling, and the rivals with their settings."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["pull", "round-robin", "least-loaded", "power-of-two", "affinity", "pools"]
#: How old a router's view of its workers may get: reports every 50 ms, as load balancers have them.
STALE_S = 0.05


class Rule(msgspec.Struct, frozen=True):
    """One way of bringing requests to workers.

    Attributes:
        stale_s: age of the router's view; 0: an oracle's.
        spread: affinity's replicas, as a multiple of what a model's share of traffic asks for.
        spill_s: affinity's limit of work in the best replica before a unit goes elsewhere.
    """

    kind: Kind
    stale_s: float = 0.0
    spread: float = 1.0
    spill_s: float = 0.04

    @property
    def name(self) -> str:
        """As tables call it; ``-fresh``: with an oracle's view where a stale one is usual."""
        fresh = self.kind in ("least-loaded", "power-of-two", "affinity") and not self.stale_s
        return f"{self.kind}-fresh" if fresh else self.kind

    @property
    def tuned(self) -> bool:
        """Whether it has settings that are searched for each scenario."""
        return self.kind == "affinity"


PULL = Rule("pull")
RIVALS = (
    Rule("round-robin"),
    Rule("least-loaded", STALE_S),
    Rule("power-of-two", STALE_S),
    Rule("power-of-two"),
    Rule("affinity", STALE_S),
    Rule("affinity"),
    Rule("pools"),
)
RULES = {rule.name: rule for rule in (PULL, *RIVALS)}

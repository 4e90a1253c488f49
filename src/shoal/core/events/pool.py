"""What workers and gateways tell each other: demand, copies, claims, pulls."""

from __future__ import annotations

from shoal.core.events.base import Value
from shoal.values import TrafficClass


class DemandSeen(Value, frozen=True):
    """A gateway told how many predicted seconds wait for each model: interactive, and of bulk."""

    gateway: str
    outstanding_s: dict[str, float]
    bulk_s: dict[str, float] = {}


class PeerModel(Value, frozen=True):
    """What another worker tells of one model; `bytes` and `load_s` are 0 until it loaded it once.

    `failures`: its own loads that failed in a row, `reason` why it has it not.
    """

    state: str
    lanes: int
    bytes: int = 0
    load_s: float = 0.0
    failures: int = 0
    reason: str | None = None


class PeerSeen(Value, frozen=True):
    """Another worker of the pool told what it has on its `lanes`; a newer one replaces it."""

    worker: str
    models: dict[str, PeerModel]
    lanes: int = 1


class PeerLost(Value, frozen=True):
    """A worker was silent for so long that what it had is gone, or it is about to leave."""

    worker: str


class PeerPulled(Value, frozen=True):
    """Another worker pulls, or pulled, a batch from a queue: `pending` units are left in it, whose
    head is not due before `due` (as `core.urgency`)."""

    model: str
    klass: TrafficClass
    pending: int
    due: float


class Group(Value, frozen=True):
    """Part `number` of the pool's workers, where they are cut into `groups` (`core.groups`)."""

    groups: int
    number: int


class TellPulled(Value, frozen=True):
    """Tell a group of workers what a batch pull leaves in a queue: `PeerPulled` there."""

    group: Group
    model: str
    klass: TrafficClass
    pending: int
    due: float


class Claimed(Value, frozen=True):
    """The claim is ours: no other worker changes the copies of this model now."""

    model: str


class ClaimRefused(Value, frozen=True):
    """Another worker has the claim, or nobody could be asked."""

    model: str


class Claim(Value, frozen=True):
    """Become, or stay, the one worker that changes the copies of this model, for `ttl_s` at most;
    `Claimed` or `ClaimRefused` follows."""

    model: str
    ttl_s: float


class Unclaim(Value, frozen=True):
    """Let others change the copies of this model."""

    model: str

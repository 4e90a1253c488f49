"""What can happen to a worker (past tense) and what it may be told to do (imperative).

`WorkerCore.handle(event, now)` returns instructions; the shell performs them and reports back
with further events. Times are seconds on the shell's monotonic clock.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.errors import ErrorInfo
from shoal.values import Features, TrafficClass


class _Value(msgspec.Struct, frozen=True):
    """Base of events and instructions."""


class UnitHead(_Value, frozen=True):
    """All the core knows of a unit: never its content.

    Attributes:
        estimate: tokens guessed from bytes, until `Prepared` brings the real lengths.
        deadline: local time after which nobody wants the answer.
        payload_bytes: of items that must be fetched before the unit can be prepared.
        priority: higher goes first among the units of one tenant.
        published: local time at which the broker stored it.
        delivered: how often it was delivered, to anybody; 1 the first time.
    """

    id: str
    request: str
    model: str
    estimate: Features
    deadline: float
    klass: TrafficClass = "work"
    tenant: str = ""
    payload_bytes: int = 0
    priority: int = 0
    published: float = 0.0
    delivered: int = 1


class Item(_Value, frozen=True):
    """One item on the shelf or in a batch: position `index` of unit `unit`, `tokens` long."""

    unit: str
    index: int
    tokens: int


# --- events -------------------------------------------------------------------------------------


class Arrived(_Value, frozen=True):
    """A pull brought a unit; `pending` more wait behind it on its subject."""

    unit: UnitHead
    pull: int
    pending: int


class PullEnded(_Value, frozen=True):
    """A pull request is over: filled, expired, empty, withdrawn or lost with the connection.

    `found_all`: it ended because nothing more was there. `refused`: the broker would not serve it
    now (no leader, no consumer, shutting down).
    """

    pull: int
    found_all: bool = False
    refused: bool = False


class Prepared(_Value, frozen=True):
    """Units were decoded and tokenized: (unit, the lengths of its items), together, so that they
    may share a batch. A length of 0 marks an item that failed already."""

    units: list[tuple[str, list[int]]]


class RuntimeStarted(_Value, frozen=True):
    """`device_bytes`: memory of its device, where that is apart from the process's own; else 0."""

    lane: str
    kind: str
    device_bytes: int = 0


class RuntimeDied(_Value, frozen=True):
    """The process is gone: it crashed, was killed, or could not start."""

    lane: str
    kind: str
    reason: str


class Fetched(_Value, frozen=True):
    """The files of a model are here, and its runtime was told to load them."""

    lane: str
    model: str


class Loaded(_Value, frozen=True):
    lane: str
    model: str
    bytes: int
    seconds: float


class LoadFailed(_Value, frozen=True):
    """`out_of_memory`: the device was full; it may fit once something else is gone."""

    lane: str
    model: str
    reason: str
    out_of_memory: bool = False


class Evicted(_Value, frozen=True):
    """The runtime let go of the model: its bytes are free."""

    lane: str
    model: str


class StatsSeen(_Value, frozen=True):
    """What a runtime process holds: its resident set, and bytes by model."""

    lane: str
    kind: str
    rss_bytes: int
    models: dict[str, int]


class RuntimeStopped(_Value, frozen=True):
    """The process ended as it was told to by `StopRuntime`: no crash."""

    lane: str
    kind: str


class PeerModel(_Value, frozen=True):
    """What another worker tells of one model; `bytes` and `load_s` are 0 until it loaded it once."""

    state: str
    lanes: int
    waiting_s: float = 0.0
    bytes: int = 0
    load_s: float = 0.0
    pinned: bool = False


class PeerSeen(_Value, frozen=True):
    """Another worker of the pool told what it has; a newer one replaces it."""

    worker: str
    models: dict[str, PeerModel]


class PeerPulled(_Value, frozen=True):
    """Another worker pulls, or pulled, a batch from a queue: `pending` units are left in it, whose
    head is not due before `due` (as `core.urgency`)."""

    model: str
    klass: TrafficClass
    pending: int
    due: float


class PeerLost(_Value, frozen=True):
    """A worker was silent for so long that what it had is gone, or it is about to leave."""

    worker: str


class Claimed(_Value, frozen=True):
    """The claim is ours: no other worker changes the copies of this model now."""

    model: str


class ClaimRefused(_Value, frozen=True):
    """Another worker has the claim, or nobody could be asked."""

    model: str


class Finished(_Value, frozen=True):
    """A batch is done; `seconds` by the runtime's own clock."""

    lane: str
    batch: int
    seconds: float


class BatchFailed(_Value, frozen=True):
    """A batch came back undone; the runtime lives."""

    lane: str
    batch: int
    error: ErrorInfo


class Settled(_Value, frozen=True):
    """The broker confirmed that the gateway acked this unit."""

    unit: str


class Unheard(_Value, frozen=True):
    """No gateway listened to the reply of this unit."""

    unit: str


class Cancelled(_Value, frozen=True):
    """The callers of these requests are gone."""

    requests: list[str]


class DemandSeen(_Value, frozen=True):
    """A gateway told how many predicted seconds wait for each model: interactive, and of bulk."""

    gateway: str
    outstanding_s: dict[str, float]
    bulk_s: dict[str, float] = {}


class BrokerLost(_Value, frozen=True):
    pass


class BrokerBack(_Value, frozen=True):
    pass


class DrainBegan(_Value, frozen=True):
    """Take nothing new, give back what has not started, finish the rest."""


class Ticked(_Value, frozen=True):
    """Time passed; sent when `next_wake` said so."""


Event = (
    Arrived
    | Prepared
    | Finished
    | Settled
    | PullEnded
    | Ticked
    | Unheard
    | Cancelled
    | DemandSeen
    | BatchFailed
    | Fetched
    | Loaded
    | LoadFailed
    | Evicted
    | StatsSeen
    | PeerSeen
    | PeerPulled
    | PeerLost
    | Claimed
    | ClaimRefused
    | RuntimeStarted
    | RuntimeDied
    | RuntimeStopped
    | BrokerLost
    | BrokerBack
    | DrainBegan
)


# --- instructions -------------------------------------------------------------------------------


class Pull(_Value, frozen=True):
    """Ask for `count` units of `model`. Standing: wait for them; else take what is there now."""

    pull: int
    model: str
    count: int
    standing: bool
    klass: TrafficClass = "work"


class Withdraw(_Value, frozen=True):
    pull: int


class TellPulled(_Value, frozen=True):
    """Tell the other workers what a batch pull leaves in a queue: `PeerPulled` there."""

    model: str
    klass: TrafficClass
    pending: int
    due: float


class Prepare(_Value, frozen=True):
    """Decode and tokenize this unit off the loop, then report `Prepared`."""

    unit: str


class Run(_Value, frozen=True):
    """Send this batch to the lane's runtime."""

    lane: str
    batch: int
    model: str
    items: list[Item]
    predicted_s: float


class StartRuntime(_Value, frozen=True):
    lane: str
    kind: str


class KillRuntime(_Value, frozen=True):
    """It hangs: end the process at once; `RuntimeDied` follows."""

    lane: str
    kind: str


class StopRuntime(_Value, frozen=True):
    """End the process gracefully, to start it anew; `RuntimeStopped` follows."""

    lane: str
    kind: str


class AskStats(_Value, frozen=True):
    """Ask a runtime process what it holds; `StatsSeen` follows."""

    lane: str
    kind: str


class Load(_Value, frozen=True):
    lane: str
    model: str


class Evict(_Value, frozen=True):
    """Tell the runtime to let go of the model; `Evicted` follows."""

    lane: str
    model: str
    reason: str = ""


class Claim(_Value, frozen=True):
    """Become, or stay, the one worker that changes the copies of this model, for `ttl_s` at most;
    `Claimed` or `ClaimRefused` follows."""

    model: str
    ttl_s: float


class Unclaim(_Value, frozen=True):
    """Let others change the copies of this model."""

    model: str


class FailItem(_Value, frozen=True):
    """Record this error for one item; its unit is answered with the others."""

    unit: str
    index: int
    error: ErrorInfo


class Reply(_Value, frozen=True):
    """Send the unit's answer (again, if it was sent before)."""

    unit: str


class Fail(_Value, frozen=True):
    """Answer the whole unit with this error."""

    unit: str
    error: ErrorInfo


class SetAside(_Value, frozen=True):
    """Keep the unit as a dead letter, before its answer goes out.

    `items`: positions of those at fault; none: all of them.
    """

    unit: str
    items: list[int]
    strikes: int
    error: ErrorInfo


class Return(_Value, frozen=True):
    """Give the unit back to the queue for another worker, and forget it."""

    unit: str
    delay_s: float


class Terminate(_Value, frozen=True):
    """Tell the broker never to deliver this unit again, and forget it."""

    unit: str
    reason: Literal["cancelled", "deadline", "unheard"]


class Forget(_Value, frozen=True):
    """The unit is settled; drop everything held for it."""

    unit: str


Instruction = (
    Pull
    | Withdraw
    | TellPulled
    | Prepare
    | Run
    | StartRuntime
    | KillRuntime
    | StopRuntime
    | AskStats
    | Load
    | Evict
    | Claim
    | Unclaim
    | FailItem
    | Reply
    | Fail
    | SetAside
    | Return
    | Terminate
    | Forget
)

"""What happens to requests in a gateway, and what `admission` asks to be done about it.

Events are past tense, instructions imperative; this file decides nothing.
"""

from __future__ import annotations

import msgspec

from shoal.errors import ShoalError
from shoal.values import TrafficClass, expected_new


class Rate(msgspec.Struct, frozen=True):
    """How fast a model is answered, from the newest pulses of all workers.

    Attributes:
        seconds_per_byte, seconds_per_item: of what is read.
        lanes: lanes where the model is resident.
        failed: why a worker cannot load the model; None while any has it or is loading it.
        unserved: it failed on all of them for want of its runtime's packages.
        again_at: when the first of them may try again what failed; 0: not told.
        longest_item_s: what reading an item of the model's maximum length costs; longer ones are cut.
        batch_s: predicted seconds of a full batch.
        seconds_per_new_token, new_tokens: of a text that is generated, and how long one is expected to be.
    """

    seconds_per_byte: float
    seconds_per_item: float
    lanes: int = 0
    failed: str | None = None
    unserved: bool = False
    longest_item_s: float = float("inf")
    batch_s: float = 0.1
    again_at: float = 0.0
    seconds_per_new_token: float = 0.0
    new_tokens: float = 0.0

    def seconds(self, bytes_: int, items: int, most_new: int = 0) -> float:
        """Predicted seconds of so many items of so many bytes together, which may become so many tokens;
        0: not told."""
        seconds = bytes_ * self.seconds_per_byte + items * self.seconds_per_item
        new_tokens = expected_new(items, most_new, self.new_tokens)
        return min(seconds, items * self.longest_item_s) + self.seconds_per_new_token * new_tokens


class UnitSize(msgspec.Struct, frozen=True):
    """`items`: as the model counts them, so several where one needs several sequences. `new_tokens`:
    that they may become; 0: not told."""

    id: str
    bytes: int
    items: int
    new_tokens: int = 0


class Outstanding(msgspec.Struct, frozen=True):
    """What a gateway has, as its pulse tells it. It is false if there is nothing.

    Attributes: by model
        outstanding_s: predicted seconds of its interactive requests.
        queued_s: those of them that are on the queue.
        requests: how many requests they are.
        bulk_s: predicted seconds of its bulk requests.
        waiting_s, bulk_waiting_s: by tenant, what of them waits in the gateway.
    """

    outstanding_s: dict[str, float] = {}
    queued_s: dict[str, float] = {}
    requests: dict[str, int] = {}
    bulk_s: dict[str, float] = {}
    waiting_s: dict[str, dict[str, float]] = {}
    bulk_waiting_s: dict[str, dict[str, float]] = {}

    def __bool__(self) -> bool:
        return bool(self.outstanding_s or self.bulk_s)


# --- events -----------------------------------------------------------------------------------


class Arrived(msgspec.Struct, frozen=True):
    """A request wants in.

    Attributes:
        tenant: who shares with others, as ``<name of the API key>/<user>``.
        priority: higher is released first, among the requests of one tenant.
    """

    request: str
    model: str
    units: tuple[UnitSize, ...]
    rate: Rate
    tenant: str = ""
    priority: int = 0
    klass: TrafficClass = "work"


class Replied(msgspec.Struct, frozen=True):
    """A whole answer came. `ack` and `inbox`: where to settle it and who waits for that."""

    unit: str
    ack: str
    inbox: str = ""


class PublishRefused(msgspec.Struct, frozen=True):
    """The broker said no to a unit, for good."""

    unit: str
    error: ShoalError


class PublishFailed(msgspec.Struct, frozen=True):
    """The broker was away; nobody knows whether the unit is on the queue."""

    unit: str


class Resumed(msgspec.Struct, frozen=True):
    """The broker may take units again."""


class Rated(msgspec.Struct, frozen=True):
    """Workers changed what they say of a model."""

    model: str
    rate: Rate


class PeerHeard(msgspec.Struct, frozen=True):
    """Another gateway told what it has."""

    gateway: str
    told: Outstanding


class Listening(msgspec.Struct, frozen=True):
    """Pulses are heard from now on: at the start, and after the broker was away."""


class WorkersCounted(msgspec.Struct, frozen=True):
    """So many workers take work, by their pulses."""

    workers: int


class Stopped(msgspec.Struct, frozen=True):
    """The gateway waits no longer for what it has, and takes nothing more."""


class ClientGone(msgspec.Struct, frozen=True):
    request: str


class DeadlinePassed(msgspec.Struct, frozen=True):
    request: str


Event = (
    Replied
    | Arrived
    | PublishRefused
    | PublishFailed
    | Resumed
    | Rated
    | PeerHeard
    | Listening
    | WorkersCounted
    | Stopped
    | ClientGone
    | DeadlinePassed
)

# --- instructions -----------------------------------------------------------------------------


class Publish(msgspec.Struct, frozen=True):
    """Put the unit on the queue, under its own id, so that a repeat is dropped there."""

    unit: str


class Keep(msgspec.Struct, frozen=True):
    """Hold this answer for its request."""

    unit: str


class Discard(msgspec.Struct, frozen=True):
    """Nobody wants this answer. `duplicate`: its unit was settled before."""

    unit: str
    duplicate: bool


class Ack(msgspec.Struct, frozen=True):
    """Settle the delivery with the broker, which confirms to `inbox`."""

    ack: str
    inbox: str


class Complete(msgspec.Struct, frozen=True):
    """All answers of the request are held."""

    request: str


class Fail(msgspec.Struct, frozen=True):
    request: str
    error: ShoalError


class Cancel(msgspec.Struct, frozen=True):
    """Nobody waits for the request's units any more: take them off the queue, tell the workers."""

    request: str


class Announce(msgspec.Struct, frozen=True):
    """Much more work waits for a model than was said last: say so at once.

    A worker may have to load it, and other gateways count what this one has.
    """

    model: str


Instruction = Publish | Keep | Discard | Ack | Complete | Fail | Cancel | Announce

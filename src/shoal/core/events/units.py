"""What a unit is to the core, from its delivery to its settlement, and what is done with it."""

from __future__ import annotations

from typing import Literal

from shoal.core.events.base import Value
from shoal.errors import ErrorInfo
from shoal.values import Features, TrafficClass, features_of


class UnitHead(Value, frozen=True):
    """All the core knows of a unit: never its content.

    Attributes:
        estimate: tokens guessed from bytes, until `Prepared` brings the real lengths; and what its items
            may become.
        deadline: local time after which nobody wants the answer.
        payload_bytes: of items that must be fetched before the unit can be prepared.
        priority: higher goes first among the units of one tenant.
        published: local time at which the broker stored it.
        delivered: how often it was delivered, to anybody; 1 the first time.
        generates: its items are texts to be generated; else they are computed in batches.
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
    generates: bool = False


class Item(Value, frozen=True):
    """One item on the shelf or in a batch: position `index` of unit `unit`, `tokens` long.

    What is one item to its caller and several sequences to its model is several of these.
    `new_tokens`: that it may become, of a text that is generated; 0: not told.
    """

    unit: str
    index: int
    tokens: int
    new_tokens: int = 0


def features_of_items(items: list[Item]) -> Features:
    """What a batch of these costs depends on."""
    lengths = [item.tokens for item in items]
    return features_of(lengths, sum([item.new_tokens for item in items]))


class Prepared(Value, frozen=True):
    """Units were decoded and tokenized: (unit, the lengths of its items), together, so that they
    may share a batch. A length of 0 marks an item that failed already.

    `of`: of units whose items are not one each, which item each of these is a part of, or None for
    what all items of the unit need.
    """

    units: list[tuple[str, list[int]]]
    of: dict[str, list[int | None]] = {}


class Settled(Value, frozen=True):
    """The broker confirmed that the gateway acked this unit."""

    unit: str


class Unheard(Value, frozen=True):
    """No gateway listened to the reply of this unit."""

    unit: str


class Cancelled(Value, frozen=True):
    """The callers of these requests are gone."""

    requests: list[str]


class Prepare(Value, frozen=True):
    """Decode and tokenize this unit off the loop, then report `Prepared`."""

    unit: str


class FailItem(Value, frozen=True):
    """Record this error for what this item is a part of; its unit is answered with the others."""

    unit: str
    index: int
    error: ErrorInfo


class Reply(Value, frozen=True):
    """Send the unit's answer (again, if it was sent before)."""

    unit: str


class Fail(Value, frozen=True):
    """Answer the whole unit with this error."""

    unit: str
    error: ErrorInfo


class SetAside(Value, frozen=True):
    """Keep the unit as a dead letter, before its answer goes out.

    `items`: positions of those at fault; none: all of them.
    """

    unit: str
    items: list[int]
    strikes: int
    error: ErrorInfo


class Return(Value, frozen=True):
    """Give the unit back to the queue for another worker, and forget it."""

    unit: str
    delay_s: float


class Terminate(Value, frozen=True):
    """Tell the broker never to deliver this unit again, and forget it."""

    unit: str
    reason: Literal["cancelled", "deadline", "unheard"]


class Forget(Value, frozen=True):
    """The unit is settled; drop everything held for it."""

    unit: str

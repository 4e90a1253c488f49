"""Pulling units from the queues of the broker."""

from __future__ import annotations

from shoal.core.events.base import Value
from shoal.core.events.units import UnitHead
from shoal.values import TrafficClass


class Arrived(Value, frozen=True):
    """A pull brought a unit; `pending` more wait behind it on its subject."""

    unit: UnitHead
    pull: int
    pending: int


class PullEnded(Value, frozen=True):
    """A pull request is over: filled, expired, empty, withdrawn or lost with the connection.

    `found_all`: it ended because nothing more was there. `refused`: the broker would not serve it
    now (no leader, no consumer, shutting down).
    """

    pull: int
    found_all: bool = False
    refused: bool = False


class Pull(Value, frozen=True):
    """Ask for `count` units of `model`. Standing: wait for them; else take what is there now."""

    pull: int
    model: str
    count: int
    standing: bool
    klass: TrafficClass = "work"


class Withdraw(Value, frozen=True):
    pull: int

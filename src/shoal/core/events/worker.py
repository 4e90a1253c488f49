"""What concerns the worker as a whole: time, its broker, its end."""

from __future__ import annotations

from shoal.core.events.base import Value


class Ticked(Value, frozen=True):
    """Time passed; sent when `next_wake` said so."""


class DrainBegan(Value, frozen=True):
    """Take nothing new, give back what has not started, finish the rest."""


class BrokerLost(Value, frozen=True):
    pass


class BrokerBack(Value, frozen=True):
    pass

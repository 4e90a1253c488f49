"""A unit in flight in a simulated world: what its message would hold, and where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from shoal.core.events import UnitHead
from shoal.values import estimated_features

if TYPE_CHECKING:
    from shoal.sim.broker import Holder, Message


class Front(Protocol):
    """Where requests come in and answers go back: a gateway, or a rival's router."""

    def replied(self, message: Message, worker: Holder) -> None:
        """`worker` answered the unit of this delivery."""


class Unit:
    """The piece of a request that sits on the queue; `front`: who waits for its answer."""

    __slots__ = ("bytes", "front", "id", "lengths", "model", "request", "timeout_s")

    def __init__(
        self,
        id_: str,
        request: str,
        model: str,
        lengths: list[int],
        bytes_: int,
        timeout_s: float,
        front: Front,
    ) -> None:
        self.id = id_
        self.request = request
        self.model = model
        self.lengths = lengths
        self.bytes = bytes_
        self.timeout_s = timeout_s
        self.front = front

    def head(self, longest: int, published: float, delivered: int) -> UnitHead:
        """What a worker's core is told of it. `longest`: that its model takes; `delivered`: 1 the
        first time."""
        return UnitHead(
            id=self.id,
            request=self.request,
            model=self.model,
            estimate=estimated_features(self.bytes, len(self.lengths), longest=longest),
            deadline=published + self.timeout_s,
            published=published,
            delivered=delivered,
        )

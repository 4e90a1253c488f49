"""How a push router picks the queue of a worker: by turn, or by what is known of queue lengths.

Pure, so that the benchmark's rivals are as easy to check as they are to read.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, Protocol

Name = Literal["round-robin", "power-of-two"]


class Policy(Protocol):
    """Chooses among queues, by position."""

    def choose(self) -> int:
        """Where the next unit goes."""
        ...

    def reported(self, lengths: Sequence[int]) -> None:
        """Units in each queue, as the workers said just now."""
        ...


class RoundRobin:
    """Each queue in its turn. `first`: several routers begin at different ones."""

    def __init__(self, queues: int, first: int) -> None:
        self._queues = queues
        self._next = first % queues

    def choose(self) -> int:
        chosen, self._next = self._next, (self._next + 1) % self._queues
        return chosen

    def reported(self, lengths: Sequence[int]) -> None:
        """Lengths do not count."""


class PowerOfTwo:
    """The shorter of two queues drawn by chance (Mitzenmacher, 2001).

    A length is what was last reported and what this router has sent there since.
    """

    def __init__(self, queues: int, rng: random.Random) -> None:
        self._lengths = [0] * queues
        self._places = range(queues)
        self._rng = rng

    def choose(self) -> int:
        drawn = self._rng.sample(self._places, min(2, len(self._places)))
        chosen = min(drawn, key=self._lengths.__getitem__)
        self._lengths[chosen] += 1
        return chosen

    def reported(self, lengths: Sequence[int]) -> None:
        self._lengths = list(lengths)


def policy(name: Name, queues: int, seed: int) -> Policy:
    """A router's policy; `seed` tells the routers of one deployment apart."""
    if name == "round-robin":
        return RoundRobin(queues, first=seed)
    return PowerOfTwo(queues, random.Random(seed))

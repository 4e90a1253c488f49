"""The models of the packing benchmark: sizes, load times, cards. Pure and seeded.

Fake models that really hold their bytes and sleep as long as loading and computing would take. Size
and load time are drawn apart from each other: a large file on a fast disk is a small one's match.
"""

from __future__ import annotations

import random

import msgspec

from shoal.bench import cards
from shoal.bench.topology.traffic import model_name

#: Sizes are spread evenly on a logarithmic scale between these.
SMALLEST_BYTES, LARGEST_BYTES = 8 << 20, 64 << 20
#: Load seconds likewise: those of small encoders from a local disk.
SHORTEST_LOAD_S, LONGEST_LOAD_S = 0.2, 3.0
#: A batch takes what one of a small encoder takes: 4 ms and 1 ms an item.
BASE_S, ITEM_S = 0.004, 0.001
_SEED = 5


class FakeModel(msgspec.Struct, frozen=True):
    """One model as its card tells it."""

    name: str
    bytes: int
    load_s: float

    def card(self, device_bytes: int) -> str:
        """Its catalog entry; the runtime refuses to hold more than `device_bytes` in all."""
        options = {"load_s": self.load_s, "bytes": self.bytes, "holds": True}
        return cards.fake(
            self.name,
            {"base_s": BASE_S, "item_s": ITEM_S, "device_bytes": device_bytes, **options},
            (BASE_S, 0.0, ITEM_S),
            memory={"weights_mb": self.bytes / 1e6},
        )


def made(count: int) -> list[FakeModel]:
    """So many models, the one that will be asked most often first."""
    rng = random.Random(_SEED)
    sizes = [_between(SMALLEST_BYTES, LARGEST_BYTES, n, count) for n in range(count)]
    loads = [_between(SHORTEST_LOAD_S, LONGEST_LOAD_S, n, count) for n in range(count)]
    rng.shuffle(sizes)
    rng.shuffle(loads)
    pairs = enumerate(zip(sizes, loads, strict=True))
    return [FakeModel(model_name(n), int(size), load_s) for n, (size, load_s) in pairs]


def budget(models: list[FakeModel], fits: float) -> int:
    """Bytes in which `fits` models of mean size have room."""
    return int(fits * sum(model.bytes for model in models) / len(models))


def _between(low: float, high: float, number: int, count: int) -> float:
    return float(low * (high / low) ** (number / max(1, count - 1)))

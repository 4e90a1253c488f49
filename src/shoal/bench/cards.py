"""Cards of fake models: what a benchmark's model costs and how it behaves, as a catalog entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


def fake(
    name: str,
    options: Mapping[str, Any],
    cost: tuple[float, float, float],
    *,
    dim: int = 8,
    profile: Mapping[str, Any] | None = None,
    **card: Any,
) -> str:
    """A card of the fake runtime; `profile` and `card` add to those parts.

    `options` (those of `FakeOptions`) are what a batch does; `cost` is what is predicted: seconds a
    batch, a token and an item.
    """
    default = {
        "runtime": "fake",
        "options": {"inputs": "text", **options},
        "cost": dict(zip(("base_s", "token_s", "item_s"), cost, strict=True)),
        **(profile or {}),
    }
    whole = {
        "name": name,
        "source": {"dir": "."},
        "family": "fake",
        "tasks": {"encode": {"dense": {"dim": dim}}},
        "max_tokens": 512,
        "profiles": {"default": default},
    }
    return yaml.safe_dump(whole | card, sort_keys=False)


def timed(name: str, *, base_s: float = 0.01, item_s: float = 0.001, **options: Any) -> str:
    """A card whose batches take what they are predicted to take."""
    options |= {"base_s": base_s, "item_s": item_s}
    return fake(name, options, (base_s, 0.0, item_s))

"""What a worker's core is told at start. Values; decides nothing."""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.core.models import ModelSpec


class WorkerConfig(msgspec.Struct, frozen=True):
    """What a worker is told at start.

    Attributes:
        worker: its name; others of the pool have other ones.
        lane_bytes: budget of each lane for what its models hold; a lane not named has no limit.
        eviction: by worth (GreedyDual-Size-Frequency) or, to be compared with, by recency.
        settle_s: how long it listens to others before it loads what is not pinned.
        rss_ceiling: a runtime above so many times its lane's budget is recycled; 0: no such bound.
        margin_s: how long before a lane is free its next batch is sent; forming and sending one
            takes about 0.5 ms.
        pull_margin_s: how long before a lane is free its next batch is pulled, at least; a pull takes
            about 0.5 ms, tokenizing what it brings about 1 ms. More where that is seen to take longer.
    """

    lanes: list[str]
    models: list[ModelSpec]
    pinned: list[str] = []
    worker: str = ""
    lane_bytes: dict[str, int] = {}
    eviction: Literal["gdsf", "lru"] = "gdsf"
    settle_s: float = 0.0
    rss_ceiling: float = 0.0
    on_demand: bool = True
    margin_s: float = 0.002
    pull_margin_s: float = 0.004
    cooldown_s: float = 60.0

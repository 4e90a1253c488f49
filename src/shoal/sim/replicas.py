"""Which workers a planner gives each model: replica sets by load, as an affinity router has them.

The planner knows the true shares of traffic, which a real one would have to estimate.
"""

from __future__ import annotations


def replica_sets(shares: list[float], workers: int, spread: float = 1.0) -> list[list[int]]:
    """Workers of each model: as many as its share of traffic asks for, times `spread`, at least one.

    Models are placed from the largest down, each on the workers that have least so far, so that
    small ones share workers and all workers get about the same (longest processing time first:
    Graham, 1969).
    """
    load = [0.0] * workers
    sets: list[list[int]] = [[] for _ in shares]
    for model in sorted(range(len(shares)), key=lambda m: -shares[m]):
        share = shares[model]
        count = min(workers, max(1, round(share * workers * spread)))
        chosen = sorted(range(workers), key=load.__getitem__)[:count]
        for worker in chosen:
            load[worker] += share / count
        sets[model] = sorted(chosen)
    return sets

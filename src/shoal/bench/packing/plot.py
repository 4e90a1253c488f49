"""A picture of bytes held against the budget."""

from __future__ import annotations

from pathlib import Path

from shoal.bench.packing.measure import Result
from shoal.bench.pictures import panels


def write(path: Path, result: Result) -> None:
    """One panel a policy, one line a runtime."""
    with panels(path, len(result.sides)) as axes:
        for panel, side in zip(axes, result.sides, strict=True):
            began = side.samples[0].time
            for lane in range(result.plan.workers):
                seen = [s for s in side.samples if lane < len(s.held_bytes)]
                panel.plot([s.time - began for s in seen], [s.held_bytes[lane] / 1e6 for s in seen])
            panel.axhline(side.budget_bytes / 1e6, color="black", linestyle="--")
            panel.set(
                title=f"{side.policy}: {side.loads} loads, {side.hits:.1%} hits", ylabel="MB held"
            )
        axes[-1].set(xlabel="seconds")

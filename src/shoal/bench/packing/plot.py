"""A picture of bytes held against the budget. matplotlib is imported here alone, when asked for."""

from __future__ import annotations

from pathlib import Path

from shoal.bench.packing.measure import Result
from shoal.errors import ConfigError


def write(path: Path, result: Result) -> None:
    """One panel a policy, one line a runtime. Raises `ConfigError` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigError("--plot needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(9, 2.5 * len(result.sides)), layout="constrained")
    panels = figure.subplots(len(result.sides), 1, sharex=True, squeeze=False)
    for (panel,), side in zip(panels, result.sides, strict=True):
        began = side.samples[0].time
        for lane in range(result.plan.workers):
            seen = [s for s in side.samples if lane < len(s.held_bytes)]
            panel.plot([s.time - began for s in seen], [s.held_bytes[lane] / 1e6 for s in seen])
        panel.axhline(side.budget_bytes / 1e6, color="black", linestyle="--")
        panel.set(
            title=f"{side.policy}: {side.loads} loads, {side.hits:.1%} hits", ylabel="MB held"
        )
    panels[-1][0].set(xlabel="seconds")
    figure.savefig(path)

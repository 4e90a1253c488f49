"""A picture of what processes hold over time."""

from __future__ import annotations

from pathlib import Path

from shoal.bench.pictures import panels
from shoal.bench.processes import ROLES
from shoal.bench.soak.measure import Result


def write(path: Path, result: Result) -> None:
    """One panel a role, one line a process."""
    with panels(path, len(ROLES)) as axes:
        for panel, role in zip(axes, ROLES, strict=True):
            for one in result.series:
                if one.name.startswith(role):
                    minutes = [time / 60 for time in one.times]
                    panel.plot(minutes, [held / 1e6 for held in one.rss_bytes], label=one.name)
            panel.axvline(0.0, color="black", linestyle="--")
            panel.set(title=role, ylabel="resident MB")
        axes[-1].set(xlabel="minutes after the warm-up")

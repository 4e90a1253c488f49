"""A picture of the comparison: throughput at the knee of every rule, one panel a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shoal.errors import ConfigError, reason
from shoal.installing import install
from shoal.sim.report import Row


def plot(rows: Sequence[Row], path: Path) -> None:
    """Write the picture; its format is that of the path's ending.

    Raises:
        ConfigError: matplotlib is not installed, or cannot write such a file.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(
            f"pictures need the 'sim' extra: {install('sim')}; "
            "without --plot the table is shown all the same"
        ) from None
    places = list(dict.fromkeys((row.workload, row.device, row.workers) for row in rows))
    figure = Figure(figsize=(7, 1 + 2.2 * len(places)), layout="constrained")
    panels = figure.subplots(len(places), squeeze=False)[:, 0]
    for panel, place in zip(panels, places, strict=True):
        shown = [r for r in rows if (r.workload, r.device, r.workers) == place][::-1]
        middles = [row.tokens for row in shown]
        spread = [
            [row.tokens - row.least_tokens for row in shown],
            [row.most_tokens - row.tokens for row in shown],
        ]
        colours = ["tab:blue" if row.rule == "pull" else "tab:gray" for row in shown]
        panel.barh([row.rule for row in shown], middles, xerr=spread, color=colours)
        panel.set_title("{}, {}, {} workers".format(*place), fontsize="medium")
        panel.set_xlabel("tokens a second at the knee")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write {path}: {reason(error)}") from None

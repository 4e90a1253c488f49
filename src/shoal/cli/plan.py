"""`shoal plan TRACE`: how many devices of which kind this traffic needs.

Decides only how the advice is shown; `shoal.sim.sizing` finds it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.numbers import decimal, whole
from shoal.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from shoal.sim.sizing import Advice
    from shoal.sim.trace import Trace

HEAD = ("device", "how many", "bound by", "p50 ms", "p99 ms", "utilisation", "headroom", "price")

#: The longest deadline that a gateway grants by default.
MOST_GOAL_MS = 600_000


def plan(
    trace: Annotated[
        Path, typer.Argument(help="CSV or JSON lines: time, model, items, tokens; or a log.")
    ],
    goal_ms: Annotated[
        float,
        typer.Option(parser=decimal(1, MOST_GOAL_MS), help="99 % of requests are faster."),
    ] = 200.0,
    fleet: Annotated[
        Path | None, typer.Option(help="TOML file of kinds of devices, and of models.")
    ] = None,
    tokens: Annotated[
        int, typer.Option(parser=whole(1), help="Tokens an item, where the trace does not say.")
    ] = 128,
    as_json: AsJson = False,
) -> None:
    """Say how many devices of which kind a trace of real traffic needs.

    A gateway's own log is a trace too, if it was started with --log-level debug --log-format json.

    shoal plan requests.csv --goal-ms 100

    shoal plan gateway.log --fleet devices.toml
    """
    from shoal.sim.fleet import DEFAULT, read_fleet
    from shoal.sim.sizing import Question
    from shoal.sim.trace import read_trace

    calls = read_trace(trace, tokens)
    known = DEFAULT if fleet is None else read_fleet(fleet)
    advice = [Question(calls, known, kind, goal_ms / 1e3).answer() for kind in known.kinds]
    advice.sort(key=lambda a: (not a.devices, a.price, a.devices))
    if as_json:
        print_json(advice)
    else:
        _show(calls, advice, goal_ms)


def _show(trace: Trace, advice: list[Advice], goal_ms: float) -> None:
    from shoal.bench.report import table

    typer.echo(
        f"{len(trace.requests):,} requests for {len(trace.models)} models in "
        f"{trace.seconds:,.1f} s, {trace.rate:,.1f} a second; 99 % within {goal_ms:g} ms:"
    )
    typer.echo(table(HEAD, [_cells(one) for one in advice]))


def _cells(advice: Advice) -> list[object]:
    outcome = advice.outcome
    if outcome is None:
        return [advice.kind.name, "none would do", advice.bound, *["–"] * 5]
    return [
        advice.kind.name,
        advice.devices,
        advice.bound,
        f"{outcome.p50_s * 1e3:.1f}",
        f"{outcome.p99_s * 1e3:.1f}",
        f"{outcome.utilisation:.2f}",
        f"{advice.headroom:.1f} x",
        f"{advice.price:.2f}" if advice.kind.price else "–",
    ]

"""``cold`` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.bench import report
from shoal.bench.cold import crowd
from shoal.bench.cold import measure as cold_bench


def cold(
    requests: Annotated[int, typer.Option(help="First requests, all at once")] = 200,
    load_s: Annotated[float, typer.Option(help="What loading the cold model takes")] = 3.0,
    rise_s: Annotated[float, typer.Option(help="How long the load rises")] = 40.0,
    real: Annotated[bool, typer.Option(help="Also real models; writes 1.3 GB for a while")] = True,
    json: Annotated[Path | None, typer.Option("--json", help="Write all figures there.")] = None,
) -> None:
    """A crowd at a cold model, load beyond one worker, broken files, and loads beside batches."""
    crowded = crowd.Plan(crowd=requests, load_s=load_s, rise_s=rise_s)
    plan = cold_bench.Plan(crowded, real=real)
    result = cold_bench.measure(plan, lambda line: typer.echo(line, err=True))
    typer.echo(f"{result.machine}\n\n{cold_bench.table(result)}")
    if json is not None:
        report.write_json(json, result)
    raise typer.Exit(1 if result.problems else 0)

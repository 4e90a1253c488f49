"""``packing`` and ``cycles`` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.bench import report
from shoal.bench.packing import cycles as cycles_bench
from shoal.bench.packing import measure as packing_bench
from shoal.bench.packing import plot as plots

Json = Annotated[Path | None, typer.Option("--json", help="Write all that was seen there.")]


def packing(
    models: Annotated[
        int, typer.Option(help="Models; Zipf's law says how often each is asked")
    ] = 20,
    fits: Annotated[float, typer.Option(help="Models of mean size that one lane holds")] = 6.0,
    rate: Annotated[float, typer.Option(help="Requests a second to each deployment")] = 8.0,
    seconds: Annotated[float, typer.Option(help="For how long")] = 600.0,
    workers: Annotated[int, typer.Option(help="Workers of each, with a lane each")] = 2,
    plot: Annotated[Path | None, typer.Option(help="Draw bytes held against the budget")] = None,
    json: Json = None,
) -> None:
    """Many models on lanes that hold a few: hits, loads and budgets, by worth and by recency."""
    plan = packing_bench.Plan(models, fits, rate, seconds, workers)
    result = packing_bench.measure(plan, lambda line: typer.echo(line, err=True))
    typer.echo(f"{result.machine}\n\n{packing_bench.table(result)}")
    if json is not None:
        report.write_json(json, result)
    if plot is not None:
        plots.write(plot, result)
    raise typer.Exit(1 if result.problems else 0)


def cycles(
    model: Annotated[str, typer.Option(help="A model of the catalog")] = "all-MiniLM-L6-v2",
    count: Annotated[int, typer.Option(help="Loads and unloads", min=12)] = 50,
    json: Json = None,
) -> None:
    """Does the memory of a real model come back, however often it is loaded and unloaded?"""
    result = cycles_bench.measure(model, count)
    typer.echo(f"{result.machine}\n\n{cycles_bench.table(result)}")
    if json is not None:
        report.write_json(json, result)
    raise typer.Exit(1 if result.problems else 0)

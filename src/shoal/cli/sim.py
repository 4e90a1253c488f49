"""`shoal sim`: compare pulling with pushing on a virtual clock, and show a table.

Decides only what is compared and how it is shown; `shoal.sim` does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from shoal import cores
from shoal.cli.numbers import decimal, whole
from shoal.cli.output import AsJson, print_json
from shoal.errors import ConfigError
from shoal.spelling import nearest
from shoal.values import whole_number

if TYPE_CHECKING:
    from shoal.sim.fixed import AtLoad
    from shoal.sim.report import Row
    from shoal.sim.table import Cell, Evicted, Result, Work

T = TypeVar("T")
Known = TypeVar("Known", bound=str)
#: The widest workers of a quick look; more take minutes of each core.
DEFAULT_WORKERS = "8"


def sim(
    workload: Annotated[
        str,
        typer.Option(help="Of one, many, bursts, memory; several with commas."),
    ] = "one,many,bursts",
    workers: Annotated[str, typer.Option(help="How many; several with commas.")] = DEFAULT_WORKERS,
    device: Annotated[str, typer.Option(help="gpu or cpu; several with commas.")] = "gpu",
    rules: Annotated[
        str, typer.Option(help="Ways to choose a worker, with commas; default: all.")
    ] = "",
    models: Annotated[
        int | None,
        typer.Option(parser=whole(1), help="Another number of models than the workload's own."),
    ] = None,
    seeds: Annotated[int, typer.Option(parser=whole(1), help="Runs of each cell.")] = 3,
    near: Annotated[
        float | None,
        typer.Option(
            parser=decimal(0.02, 1.1),
            help="Search knees around this share of capacity first: about half the runs if they are there.",
        ),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            parser=decimal(0.1, 100.0),
            help="Do not search settings of the affinity rules: replicas, times a model's share. "
            "With --spill-ms.",
        ),
    ] = None,
    spill_ms: Annotated[
        float | None,
        typer.Option(
            parser=decimal(0.0, 1e6),
            help="Work in the best replica above which they spill. With --spread.",
        ),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(
            parser=decimal(0.01, 2.0),
            help="Do not search knees: run each rule once at this share of the devices' capacity.",
        ),
    ] = None,
    requests: Annotated[
        int, typer.Option(parser=whole(1), help="Requests that a run with --load measures.")
    ] = 20_000,
    processes: Annotated[
        int, typer.Option(parser=whole(0), help="Processes that compute; 0: one a core.")
    ] = 0,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture of the knees here (.svg, .png, .pdf).")
    ] = None,
) -> None:
    """Simulate a cluster: pulling against routers that push, and ways to evict.

    shoal sim --workload one --rules pull,round-robin --seeds 1    half a minute
    shoal sim --workload many --workers 8
    shoal sim --workload bursts --device cpu --rules pull,round-robin
    shoal sim --workload memory
    shoal sim --workload many --workers 1000 --models 200 --rules pull --load 0.5 --requests 1000000

    Without flags it computes for long, on every core.
    """
    from shoal.sim import report, table
    from shoal.sim.rules import RULES
    from shoal.sim.scenario import DEVICES
    from shoal.sim.workloads import ABOUT

    names = _chosen("workload", workload.split(","), ABOUT)
    sizes = [_number(text) for text in workers.split(",")]
    kinds = _chosen("device", device.split(","), DEVICES)
    chosen = _chosen("rules", rules.split(",") if rules else list(RULES), RULES)
    processes = processes or cores.usable()
    setting = _setting(spread, spill_ms)
    cells = [
        table.Cell(name, kind, size, rule, seeds, models, near, setting)
        for name in names
        if name != "memory" or load is not None
        for kind in kinds
        for size in sizes
        for rule in chosen
    ]
    if load is not None:
        if plot is not None:
            raise ConfigError(
                "--plot draws knees, and with --load none is searched: give one of them"
            )
        _at_load(cells, load, requests, processes, as_json=as_json)
        return
    evictions = [
        table.Eviction(way, size, seeds, models)
        for size in sizes
        if "memory" in names
        for way in table.EVICTIONS
    ]
    results: list[Result] = _compute(
        "knees", [(table.compute, (cell,)) for cell in cells], processes
    )
    results = _compute("half load", table.halves(results), processes) or results
    results.sort(key=lambda result: cells.index(result.cell))
    evicted: list[Evicted] = _compute(
        "evictions", [(table.compute_eviction, (cell,)) for cell in evictions], processes
    )
    evicted.sort(key=lambda result: evictions.index(result.cell))
    rows = report.rows_of(results)
    if plot is not None and rows:
        from shoal.sim.plot import plot as draw

        draw(rows, plot)
    _show(rows, results, evicted, as_json=as_json)


def _at_load(
    cells: list[Cell], load: float, requests: int, processes: int, *, as_json: bool
) -> None:
    from shoal.bench.report import table as markdown
    from shoal.sim import fixed

    done: list[AtLoad] = _compute(
        f"at {load:g} of capacity",
        [(fixed.compute_at, (cell, load, requests)) for cell in cells],
        processes,
    )
    done.sort(key=lambda at: cells.index(at.cell))
    if as_json:
        print_json({"runs": done})
    else:
        typer.echo(markdown(fixed.HEAD, [fixed.cells_of(at) for at in done]))


def _show(rows: list[Row], results: list[Result], evicted: list[Evicted], *, as_json: bool) -> None:
    from shoal.bench.report import table as markdown
    from shoal.sim import report

    if as_json:
        shown = {"rows": rows, "results": results, "evictions": evicted}
        print_json(shown)
        return
    if rows:
        typer.echo(markdown(report.HEAD, [report.cells_of(row) for row in rows]))
        for result in results:
            if result.setting is not None:
                setting = result.setting
                typer.echo(
                    f"{result.cell.workload}, {result.cell.device}, {result.cell.workers} workers: "
                    f"{result.cell.rule} tuned to {setting.spread:g} x its share of replicas, "
                    f"spill above {setting.spill_s * 1000:g} ms"
                )
    if evicted:
        typer.echo(markdown(report.EVICTION_HEAD, [report.eviction_cells(e) for e in evicted]))


def _compute(what: str, work: Sequence[Work[T]], processes: int) -> list[T]:
    """Results as they are done, with a bar for whoever looks on."""
    from rich.console import Console
    from rich.progress import Progress

    from shoal.sim.table import in_processes

    if not work:
        return []
    console = Console(stderr=True)
    done: list[T] = []
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=len(work))
        for result in in_processes(work, processes):
            done.append(result)
            bar.advance(task)
    return done


def _chosen(what: str, given: list[str], known: Iterable[Known]) -> list[Known]:
    by_name = {str(name): name for name in known}
    names = [name.strip() for name in given]
    for name in names:
        if name not in by_name:
            raise ConfigError(
                f"--{what}: unknown {what} '{name}'{nearest(name, by_name)}; "
                f"there are {', '.join(by_name)}"
            )
    return [by_name[name] for name in names]


def _setting(spread: float | None, spill_ms: float | None) -> tuple[float, float] | None:
    if spread is None and spill_ms is None:
        return None
    if spread is None or spill_ms is None:
        raise ConfigError("--spread and --spill-ms are one setting: give both, or none to search")
    return spread, spill_ms / 1000


def _number(text: str) -> int:
    found = whole_number(text.strip())
    if found is None or found < 1:
        raise ConfigError(f"--workers: '{text}' is no number of workers")
    return found

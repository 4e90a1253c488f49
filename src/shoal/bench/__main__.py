"""``python -m shoal.bench``: which benchmarks there are and how their options are called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from shoal.bench import chaos as chaos_bench
from shoal.bench import cost as cost_bench
from shoal.bench import fairness as fairness_bench
from shoal.bench import media as media_bench
from shoal.bench import overhead as overhead_bench
from shoal.bench import peers as peers_bench
from shoal.bench import report
from shoal.bench.cold.commands import cold
from shoal.bench.packing.commands import cycles, packing
from shoal.bench.rivals import read_rivals
from shoal.bench.topology import measure as topology_bench
from shoal.bench.topology import plans, results
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.errors import ShoalError

app = typer.Typer(
    name="python -m shoal.bench",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[Path | None, typer.Option("--json", help="Write every round there.")]


@app.callback()
def root() -> None:
    """Measure Shoal on this machine; docs/performance.md explains what the figures mean."""


@app.command()
def overhead(
    gateways: Annotated[int, typer.Option(help="Gateway processes")] = 1,
    connections: Annotated[int, typer.Option(help="Single-item requests at once")] = 64,
    seconds: Annotated[float, typer.Option(help="Length of a round")] = 4.0,
    rounds: Annotated[int, typer.Option(help="Rounds of each workload; medians count")] = 5,
    dim: Annotated[int, typer.Option(help="Width of a vector")] = 384,
    log_level: Annotated[str, typer.Option(help="info, the default, logs every request")] = "info",
    json: Json = None,
) -> None:
    """Requests a second and processor time of every process, with a model that costs nothing."""
    plan = overhead_bench.Plan(gateways, connections, seconds, rounds, dim, log_level)
    result = overhead_bench.measure(plan, _tell)
    print(f"{result.machine}\n\n{overhead_bench.table(result)}")
    if json is not None:
        report.write_json(json, result)


@app.command()
def peers(
    rivals: Annotated[
        Path | None, typer.Option(help="TOML file of other servers; docs/performance.md has one")
    ] = None,
    model: Annotated[str, typer.Option(help="A model of the catalog")] = "all-MiniLM-L6-v2",
    threads: Annotated[int, typer.Option(help="Compute threads of every side")] = 1,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; medians count")] = 5,
    size: Annotated[float, typer.Option(help="Scales the requests of a round")] = 1.0,
    json: Json = None,
) -> None:
    """Shoal's whole path against sentence-transformers in-process and other servers."""
    plan = peers_bench.Plan(model, threads, rounds, size)
    result = peers_bench.measure(plan, read_rivals(rivals) if rivals else [], _tell)
    print(f"{result.machine}\n\n{peers_bench.table(result)}")
    if json is not None:
        report.write_json(json, result)


@app.command()
def topology(
    devices: Annotated[str, typer.Option(help="Among gpu, cpu (tables) and real")] = "gpu,cpu,real",
    workers: Annotated[int, typer.Option(help="Workers of each topology")] = 8,
    lanes: Annotated[int, typer.Option(help="Devices of a worker")] = 1,
    slower: Annotated[float, typer.Option(help="Than a GPU, so that the cores keep up")] = 15.0,
    seconds: Annotated[float, typer.Option(help="Length of a try at one rate")] = 3.0,
    rounds: Annotated[int, typer.Option(help="Searches for each knee; medians count")] = 2,
    quick: Annotated[bool, typer.Option(help="One traffic, four workers, one round")] = False,
    json: Json = None,
) -> None:
    """A shared pull queue against push routers: same workers, same devices, same traffic."""
    kinds = msgspec.convert(devices.split(","), list[plans.Devices])
    options = plans.Options(kinds, workers, lanes, slower=slower, seconds=seconds, rounds=rounds)
    plan = plans.quick(options) if quick else plans.plan(options)
    result = topology_bench.measure(plan, _tell)
    print(f"{result.machine}\n\n{results.table(result)}")
    if json is not None:
        report.write_json(json, result)


@app.command()
def fairness(
    models: Annotated[str, typer.Option(help="Among minilm-timed (a table), all-MiniLM-L6-v2")] = (
        "minilm-timed,all-MiniLM-L6-v2"
    ),
    seconds: Annotated[float, typer.Option(help="Length of a round")] = 8.0,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds, taken together")] = 4,
    texts: Annotated[int, typer.Option(help="Texts of the large request")] = 512,
    quick: Annotated[bool, typer.Option(help="The table only, one short round")] = False,
    json: Json = None,
) -> None:
    """What others wait for: a tenant that sends 50 times as much, a request of 512 long texts."""
    plan = fairness_bench.Plan(models.split(","), seconds, rounds, texts)
    if quick:
        plan = fairness_bench.Plan([fairness_bench.FAKE], 2.0, 1, 64)
    result = fairness_bench.measure(plan, _tell)
    print(f"{result.machine}\n\n{fairness_bench.table(result)}")
    if json is not None:
        report.write_json(json, result)


@app.command()
def timetable(
    profile: Annotated[str, typer.Option(help="Of all-MiniLM-L6-v2's card")] = "cpu-bf16",
    threads: Annotated[int, typer.Option(help="Compute threads")] = 1,
    rounds: Annotated[int, typer.Option(help="Batches of each size")] = 24,
) -> None:
    """How long real batches take, by their tokens; `topology` is timed by such a table."""
    from shoal.bench import timetable as timetable_bench  # imports torch

    card = Catalog.load([]).card("all-MiniLM-L6-v2")
    folder = fetch(card, cache_dir=None, offline=False)
    result = timetable_bench.measure(folder, card.profile(profile), threads, rounds)
    print(f"{result.machine}\n\n{timetable_bench.table(result)}\n\n{result.points}")


@app.command()
def cost(
    workers: Annotated[int, typer.Option(help="Worker processes, of one lane each")] = 2,
    gateways: Annotated[int, typer.Option(help="Gateway processes")] = 2,
    seconds: Annotated[float, typer.Option(help="Length of a phase")] = 5.0,
    rounds: Annotated[int, typer.Option(help="Rounds of all phases, interleaved")] = 4,
    json: Json = None,
) -> None:
    """How far predicted batch seconds are off, beside repeating one and the same batch."""
    plan = cost_bench.Plan(gateways, workers, seconds, rounds)
    result = cost_bench.measure(plan, _tell)
    print(f"{result.machine}\n\n{cost_bench.table(result)}")
    if json is not None:
        report.write_json(json, result)


@app.command()
def chaos(
    requests: Annotated[int, typer.Option(help="In all, through kills")] = 10_000,
    strikes: Annotated[int, typer.Option(help="Faults of each kind")] = 3,
    seed: Annotated[int, typer.Option(help="Draws which process is struck, and when")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="A phase, such as 'kill worker'")] = None,
    quick: Annotated[bool, typer.Option(help="The kills, and a little of each")] = False,
    json: Json = None,
) -> None:
    """Is every request answered, once and rightly, while processes and links are harmed?"""
    plan = chaos_bench.Plan(requests, strikes, seed=seed, only=only or [])
    if quick:
        plan = chaos_bench.quick(plan)
    result = chaos_bench.measure(plan, _tell)
    print(f"{result.machine}\n\n{chaos_bench.table(result.outcomes)}")
    if json is not None:
        report.write_json(json, result)


@app.command()
def media(
    images: Annotated[int, typer.Option(help="Images of 3 MB in flight together")] = 100,
    texts: Annotated[int, typer.Option(help="Texts of 5.4 MB beside them")] = 8,
    own_core: Annotated[
        bool, typer.Option(help="Gateways run before all else (root), where the machine is busy")
    ] = False,
    json: Json = None,
) -> None:
    """Does a gateway stay quick and small while large items pass?"""
    result = media_bench.measure(
        media_bench.Plan(images=images, texts=texts, own_core=own_core), _tell
    )
    print(f"{result.machine}\n\n{media_bench.table(result)}")
    if json is not None:
        report.write_json(json, result)
    if not result.good:
        raise typer.Exit(1)


for command in (packing, cycles, cold):
    app.command()(command)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        app()
    except ShoalError as error:
        print(f"error: {error.message}", file=sys.stderr)
        sys.exit(1)

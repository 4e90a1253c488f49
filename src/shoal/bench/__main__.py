"""``python -m shoal.bench``: which benchmarks there are."""

from __future__ import annotations

import sys
from typing import Any

import typer

from shoal.bench import (
    chaos,
    core,
    cost,
    encoder,
    fairness,
    images,
    media,
    overhead,
    peers,
    timetable,
)
from shoal.bench.benchmark import Benchmark
from shoal.bench.cold import measure as cold
from shoal.bench.generating import measure as generating
from shoal.bench.generating import plot as generating_plot
from shoal.bench.generating import seeing
from shoal.bench.heads import measure as heads
from shoal.bench.packing import cycles
from shoal.bench.packing import measure as packing
from shoal.bench.packing import plot as packing_plot
from shoal.bench.quality import measure as quality
from shoal.bench.quality import results as compared
from shoal.bench.runtimes import measure as runtimes
from shoal.bench.schemas import measure as schemas
from shoal.bench.served import measure as served
from shoal.bench.soak import measure as soak
from shoal.bench.soak import plot as soak_plot
from shoal.bench.topology import measure as topology
from shoal.bench.topology import plans, results
from shoal.bench.zoo import measure as zoo
from shoal.errors import ShoalError

BENCHMARKS: dict[str, Benchmark[Any, Any]] = {
    "overhead": Benchmark(
        "Requests a second and processor time of every process, with a model that costs nothing.",
        overhead.Plan(),
        overhead.measure,
        overhead.table,
        overhead.Plan(seconds=1.0, rounds=1),
    ),
    "peers": Benchmark(
        "Shoal's whole path against sentence-transformers in-process and other servers.",
        peers.Plan(),
        peers.measure,
        peers.table,
        peers.Plan(rounds=1, size=0.1),
    ),
    "heads": Benchmark(
        "Texts a second of every head through the API, and of its library in-process.",
        heads.Plan(),
        heads.measure,
        heads.table,
        heads.Plan(rounds=1, requests=2, texts=4),
    ),
    "encoder": Benchmark(
        "Texts a second of the PyTorch runtime and of sentence-transformers, and their ratio.",
        encoder.Plan(),
        encoder.measure,
        encoder.table,
        encoder.Plan(rounds=1, size=0.2),
    ),
    "runtimes": Benchmark(
        "One model in several kinds of runtime: MB installed, first vector, texts a second, cosine.",
        runtimes.Plan(),
        runtimes.measure,
        runtimes.table,
        runtimes.Plan(starts=1, rounds=1, texts=16),
    ),
    "generate": Benchmark(
        "Tokens a second of one stream and of several, and what a long prompt does to the others.",
        generating.Plan(),
        generating.measure,
        generating.table,
        generating.Plan(rounds=1, new_tokens=16, long_tokens=256),
        generating_plot.write,
    ),
    "seeing": Benchmark(
        "How long do texts pause while a picture in a conversation beside them is looked at?",
        seeing.Plan(),
        seeing.measure,
        seeing.table,
        seeing.Plan(rounds=1, streams=3, new_tokens=8),
    ),
    "served": Benchmark(
        "Texts through `shoal serve` and through llama.cpp's own server: tokens a second, first token.",
        served.Plan(),
        served.measure,
        served.table,
        served.Plan(rounds=1, alone=2, together=10, new_tokens=16),
    ),
    "schemas": Benchmark(
        "Is every text that a JSON schema was asked for as the schema says?",
        schemas.Plan(),
        schemas.measure,
        schemas.table,
        schemas.Plan(count=20),
    ),
    "timetable": Benchmark(
        "How long real batches take, by their tokens; `topology` is timed by such a table.",
        timetable.Plan(),
        timetable.measure,
        timetable.table,
        timetable.Plan(rounds=4),
    ),
    "core": Benchmark(
        "What the worker's decisions take, by number of models, lanes and load.",
        core.Plan(),
        core.measure,
        core.table,
        core.Plan(lanes=(1,), units=400),
    ),
    "topology": Benchmark(
        "A shared pull queue against push routers: same workers, same devices, same traffic.",
        plans.Options(),
        lambda options, tell: topology.measure(plans.plan(options), tell),
        results.table,
        plans.QUICK,
    ),
    "fairness": Benchmark(
        "What others wait for: a tenant that sends 50 times as much, a request of 512 long texts.",
        fairness.Plan(),
        fairness.measure,
        fairness.table,
        fairness.Plan(models=(fairness.FAKE,), seconds=2.0, rounds=1, texts=64),
    ),
    "cost": Benchmark(
        "How far predicted batch seconds are off, beside repeating one and the same batch.",
        cost.Plan(),
        cost.measure,
        cost.table,
        cost.Plan(seconds=1.0, rounds=1),
    ),
    "packing": Benchmark(
        "Many models on lanes that hold a few: hits, loads and budgets, by worth and by recency.",
        packing.Plan(),
        packing.measure,
        packing.table,
        packing.Plan(seconds=20.0),
        packing_plot.write,
    ),
    "cycles": Benchmark(
        "Does the memory of a real model come back, however often it is loaded and unloaded?",
        cycles.Plan(),
        cycles.measure,
        cycles.table,
        cycles.Plan(count=15),
    ),
    "cold": Benchmark(
        "A crowd at a cold model, load beyond one worker, broken files, and loads beside batches.",
        cold.Plan(),
        cold.measure,
        cold.table,
        cold.Plan(load_s=1.0, rise_s=15.0, real=False),
    ),
    "media": Benchmark(
        "Does a gateway stay quick and small while large items pass?",
        media.Plan(),
        media.measure,
        media.table,
        media.Plan(images=10, texts=2, idle_s=1.0),
    ),
    "images": Benchmark(
        "What do images of 4 MB cost as MessagePack binary, and as base64 in JSON?",
        images.Plan(),
        images.measure,
        images.table,
        images.Plan(images=6, rounds=2, real=False),
    ),
    "quality": Benchmark(
        "Through the API, is everything as good as the reference libraries make it?",
        quality.Plan(),
        quality.measure,
        compared.table,
        quality.QUICK,
    ),
    "zoo": Benchmark(
        "Do models that Shoal converted answer as their original files do?",
        zoo.Plan(),
        zoo.measure,
        zoo.table,
        zoo.QUICK,
    ),
    "soak": Benchmark(
        "Does every process's resident memory stay flat under an hour of mixed lengths?",
        soak.Plan(),
        soak.measure,
        soak.table,
        soak.Plan(minutes=1.0, warm_minutes=0.5, limit_mb=2000.0),  # kernels are still compiled
        soak_plot.write,
    ),
    "chaos": Benchmark(
        "Is every request answered, once and rightly, while processes and links are harmed?",
        chaos.Plan(),
        chaos.measure,
        lambda result: chaos.table(result.outcomes),
        chaos.quick(chaos.Plan()),
    ),
}

app = typer.Typer(
    name="python -m shoal.bench",
    help="Measure Shoal on this machine; docs/performance.md explains what the figures mean.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name, benchmark in BENCHMARKS.items():
    app.command(name)(benchmark.command())


if __name__ == "__main__":
    try:
        app()
    except ShoalError as error:
        print(f"error: {error.message}", file=sys.stderr)
        sys.exit(1)

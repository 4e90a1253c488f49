"""The standard scenarios of `shoal sim`, by name."""

from __future__ import annotations

import random
from typing import Literal

import msgspec

from shoal.sim.scenario import Cluster, Device, Model, Scenario, Traffic, zipf

Name = Literal["one", "many", "bursts", "memory"]
#: What each is for, as `--help` says.
ABOUT: dict[Name, str] = {
    "one": "one model, requests of one text",
    "many": "50 models, Zipf(1.0), resident everywhere, requests of one text",
    "bursts": "as many, in bursts of ten times the rate, requests of 1 to 256 texts",
    "memory": "200 models, Zipf(1.0), all lanes together have memory for a third of them",
}
MODELS: dict[Name, int] = {"one": 1, "many": 50, "bursts": 50, "memory": 200}
#: Bytes of the models where memory is short: lognormal, as the encoders of a public hub are: many
#: of 100 MB, few of some GB.
BYTES_MEDIAN = 300 << 20
BYTES_SIGMA = 0.8
#: Reading a model from a local disk and copying it to the device, and what comes before.
LOAD_BYTES_PER_S = 1 << 30
LOAD_LEAST_S = 0.2
#: Where requests wait for loads they are given the time for a few of them.
LOADING_GOAL_S = 10.0
#: Share of all models' bytes that all lanes together have room for.
ROOM = 1 / 3


def scenario(name: Name, device: Device, workers: int, models: int | None = None) -> Scenario:
    """A standard scenario with so many workers of one lane each, and another number of models."""
    count = MODELS[name] if models is None else models
    made = _models(count, device, sized=name == "memory")
    room = _room(made, workers) if name == "memory" else None
    return Scenario(
        name=f"{name}, {device.name}, {workers} workers",
        models=made,
        traffic=Traffic(most_items=256, burst=10.0) if name == "bursts" else Traffic(),
        cluster=Cluster(workers, lane_bytes=room),
        goal_s=LOADING_GOAL_S if name == "memory" else device.goal_s,
    )


def _room(models: tuple[Model, ...], workers: int) -> int:
    """Bytes of one lane; every model fits into one."""
    most = max(model.bytes for model in models)
    return max(most, int(sum(model.bytes for model in models) * ROOM / workers))


def _models(count: int, device: Device, *, sized: bool) -> tuple[Model, ...]:
    """The same ones each time: popularity and size have nothing to do with each other."""
    random_ = random.Random(1)
    models = []
    for number, share in enumerate(zipf(count)):
        bytes_ = int(BYTES_MEDIAN * random_.lognormvariate(0.0, BYTES_SIGMA)) if sized else 0
        load_s = LOAD_LEAST_S + bytes_ / LOAD_BYTES_PER_S
        models.append(
            Model(f"m{number}", share, device.cost, device.budget, bytes=bytes_, load_s=load_s)
        )
    return tuple(models)


def by_count(scenario: Scenario) -> Scenario:
    """Memory counted in models instead of bytes: as many as fit if all are of mean size.

    Kinder than a real server with such a limit, which would run out of memory whenever it holds
    more than its share of large ones: here it does not.
    """
    room = scenario.cluster.lane_bytes or 0
    count = max(1, room * len(scenario.models) // sum(model.bytes for model in scenario.models))
    models = tuple(msgspec.structs.replace(model, bytes=1) for model in scenario.models)
    cluster = msgspec.structs.replace(scenario.cluster, lane_bytes=count, eviction="lru")
    return msgspec.structs.replace(scenario, models=models, cluster=cluster)

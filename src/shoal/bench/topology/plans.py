"""Which scenarios the topology benchmark runs, unless told otherwise."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from shoal.bench.benchmark import option
from shoal.bench.knee import MOST_TRIES
from shoal.bench.topology.results import Plan, Scenario
from shoal.bench.topology.tables import CPU, GPU
from shoal.bench.topology.traffic import Traffic

Devices = Literal["gpu", "cpu", "real"]
Kind = Literal["one", "many", "bursts"]

#: One model, where routers need not choose; many, where batches cannot mix; and many in bursts.
TRAFFICS: dict[Kind, Traffic] = {
    "one": Traffic(1),
    "many": Traffic(20),
    "bursts": Traffic(20, "bursty"),
}
REAL_MODEL = "all-MiniLM-L6-v2"
#: More real runtimes than cores would measure the scheduler of the operating system.
REAL_WORKERS = 2


#: The usual traffics of each kind of device.
_USUAL: dict[Devices, list[Kind]] = {
    "gpu": ["one", "many", "bursts"],
    "cpu": ["bursts"],
    "real": ["one"],
}


class Options(msgspec.Struct, frozen=True):
    """What to run, as a caller says it."""

    devices: Annotated[tuple[Devices, ...], option("Among gpu, cpu (tables) and real")] = (
        "gpu",
        "cpu",
        "real",
    )
    traffic: Annotated[
        tuple[Kind, ...], option("Among one, many, bursts; each device has its usual ones")
    ] = ()
    workers: Annotated[int, option("Workers of each topology; real ones are two")] = 8
    lanes: Annotated[int, option("Devices of a worker")] = 1
    gateways: Annotated[int, option("Gateways of each topology")] = 2
    slower: Annotated[float, option("Than a GPU, so that the cores keep up")] = 15.0
    seconds: Annotated[float, option("Length of a try at one rate")] = 3.0
    rounds: Annotated[int, option("Searches for each knee; medians count")] = 2
    tries: Annotated[int, option("The most of one search")] = MOST_TRIES


#: One kind of traffic on few devices, once: does the benchmark work?
QUICK = Options(devices=("gpu",), traffic=("many",), workers=4, seconds=1.0, rounds=1, tries=6)


def plan(options: Options) -> Plan:
    """Every kind of device that was asked for."""
    scenarios = [_scenario(devices, options) for devices in options.devices]
    return Plan(scenarios, options.gateways, options.seconds, options.rounds, options.tries)


def _scenario(devices: Devices, options: Options) -> Scenario:
    traffics = [TRAFFICS[kind] for kind in options.traffic or _USUAL[devices]]
    match devices:
        case "gpu":
            return Scenario(GPU.slower(options.slower), traffics, options.workers, options.lanes)
        case "cpu":
            return Scenario(CPU, traffics, options.workers, options.lanes)
        case "real":
            timing = msgspec.structs.replace(CPU, name="real MiniLM")
            # It has one model to ask for, whatever is wanted.
            return Scenario(timing, [TRAFFICS["one"]], REAL_WORKERS, model=REAL_MODEL)

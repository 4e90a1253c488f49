"""Which scenarios the topology benchmark runs, unless told otherwise."""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.bench.topology.results import Plan, Scenario
from shoal.bench.topology.tables import CPU, GPU
from shoal.bench.topology.traffic import Traffic

Devices = Literal["gpu", "cpu", "real"]

#: One model, where routers need not choose; many, where batches cannot mix; and many in bursts.
ONE, MANY, BURSTS = Traffic(1), Traffic(20), Traffic(20, "bursty")
REAL_MODEL = "all-MiniLM-L6-v2"
#: More real runtimes than cores would measure the scheduler of the operating system.
REAL_WORKERS = 2


class Options(msgspec.Struct, frozen=True):
    """`slower`: how much slower than a GPU the devices like one are, so that two cores keep up."""

    devices: list[Devices]
    workers: int = 8
    lanes: int = 1
    gateways: int = 2
    slower: float = 15.0
    seconds: float = 3.0
    rounds: int = 2


def plan(options: Options) -> Plan:
    """Every kind of device that was asked for."""
    scenarios = [_scenario(devices, options) for devices in options.devices]
    return Plan(scenarios, options.gateways, options.seconds, options.rounds)


def quick(options: Options) -> Plan:
    """One kind of traffic on few devices, once: does the benchmark work?"""
    few = msgspec.structs.replace(options, workers=min(4, options.workers), seconds=1.0, rounds=1)
    scenario = msgspec.structs.replace(_scenario("gpu", few), traffics=[MANY])
    return Plan([scenario], few.gateways, few.seconds, few.rounds)


def _scenario(devices: Devices, options: Options) -> Scenario:
    match devices:
        case "gpu":
            timing = GPU.slower(options.slower)
            return Scenario(timing, [ONE, MANY, BURSTS], options.workers, options.lanes)
        case "cpu":
            return Scenario(CPU, [BURSTS], options.workers, options.lanes)
        case "real":
            timing = msgspec.structs.replace(CPU, name="real MiniLM")
            return Scenario(timing, [ONE], REAL_WORKERS, model=REAL_MODEL)

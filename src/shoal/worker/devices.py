"""Which devices this machine has and how its cores are shared among the lanes."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.errors import ConfigError
from shoal.settings import WorkerSettings
from shoal.worker.lanes import LaneSpec

KINDS = ("cpu", "cuda", "mps")


def lanes_of(settings: WorkerSettings) -> list[LaneSpec]:
    """One lane per device named; ``auto`` is every GPU, or the CPU where there is none.

    Raises:
        ConfigError: a device of an unknown kind.
    """
    devices: list[str] = []
    for name in settings.lanes:
        devices += _found() if name == "auto" else [name]
    for device in devices:
        if device.partition(":")[0] not in KINDS:
            raise ConfigError(
                f"lanes: '{device}' is no device; use auto, cpu, cuda:0 or mps, separated by commas"
            )
    threads = settings.threads or _threads(len(devices))
    names = [device if devices.count(device) == 1 else "" for device in devices]
    return [
        LaneSpec(name or f"{device}-{position}", device, threads)
        for position, (name, device) in enumerate(zip(names, devices, strict=True))
    ]


def _found() -> list[str]:
    gpus = sorted(Path("/dev").glob("nvidia[0-9]*"))
    return [f"cuda:{index}" for index in range(len(gpus))] or ["cpu"]


def _threads(lanes: int) -> int:
    """The cores we own less one for gateway, broker and this process, divided among the lanes.

    On a contended core, two threads fell from 75 to 2 texts a second.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, ((cores or 1) - 1) // max(1, lanes))

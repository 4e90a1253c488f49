"""Which devices this machine has and how its cores are shared among the lanes."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from shoal import cores
from shoal.errors import ConfigError
from shoal.settings import WorkerSettings
from shoal.worker.lanespec import LaneSpec

_DEVICE = re.compile(r"(cpu|cuda|mps)(:\d+)?")
#: Where Linux has what CUDA talks to: a card, Windows' card behind WSL, a Jetson's.
_CUDA = ("nvidia[0-9]*", "dxg", "nvmap")
#: Kinds of processors, the fastest products first -> flags, one of which each of them has.
SPECIAL = {
    # Sums of 8-bit products in 32 bits: Cascade Lake, Zen 4, Alder Lake and later. Without them
    # onnxruntime adds pairs in 16 bits, where large ones are cut off.
    "cpu-int8": ("avx512_vnni", "avx_vnni"),
    "cpu-bf16": ("avx512_bf16", "amx_bf16"),  # Cooper Lake, Zen 4 and later
}


def lanes_of(settings: WorkerSettings) -> list[LaneSpec]:
    """One lane per device named; ``auto`` is every GPU, or the CPU where there is none.

    Raises:
        ConfigError: a name that is no device's, or devices of several kinds.
    """
    devices: list[str] = []
    for name in settings.lanes:
        devices += _found() if name == "auto" else [name]
    for device in devices:
        if _DEVICE.fullmatch(device) is None:
            raise ConfigError(
                f"lanes: '{device}' is no device; use auto, cpu, cuda:0 or mps, separated by commas"
            )
    if len({device.partition(":")[0] for device in devices}) > 1:
        raise ConfigError(
            f"lanes: {', '.join(devices)} are of different kinds, and one worker schedules one kind; "
            "start a worker for each"
        )
    threads = settings.threads or _threads(len(devices) * settings.workers)
    names = [device if devices.count(device) == 1 else "" for device in devices]
    return [
        LaneSpec(
            name or f"{device}-{position}",
            device,
            threads,
            kinds_of(device, settings.profile),
            only=settings.profile is not None,
        )
        for position, (name, device) in enumerate(zip(names, devices, strict=True))
    ]


def require(specs: Sequence[LaneSpec]) -> None:
    """Raises `ConfigError` if a lane's device is surely not in this machine, where runtimes would fail later."""
    if sys.platform != "linux":
        return
    for spec in specs:
        if spec.device.startswith("cuda") and not any(_nodes(name) for name in _CUDA):
            raise ConfigError(
                f"lanes: '{spec.device}' is not here: this machine shows no NVIDIA GPU (/dev/nvidia0). In a "
                "container, give it one (--gpus all); or use auto or cpu"
            )


def kinds_of(device: str, profile: str | None) -> tuple[str, ...]:
    """The profiles that suit a device, best first; `profile`, if set, is the only one."""
    if profile is not None:
        return (profile,)
    kind = device.partition(":")[0]
    return (*_special(_flags()), "cpu") if kind == "cpu" else (kind,)


def _special(flags: Container[str]) -> Iterator[str]:
    """What a processor with these flags multiplies beside float32."""
    return (kind for kind, any_of in SPECIAL.items() if any(flag in flags for flag in any_of))


def _flags() -> set[str]:
    """Of this processor, as Linux has them; elsewhere none."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    return set(text.partition("flags")[2].partition("\n")[0].split())


def _found() -> list[str]:
    gpus = _nodes(_CUDA[0])
    return [f"cuda:{index}" for index in range(len(gpus))] or ["cpu"]


def _nodes(name: str) -> list[Path]:
    return list(Path("/dev").glob(name))


def _threads(lanes: int) -> int:
    """The cores we own less one for gateway, broker and the workers, divided among all lanes.

    On a contended core, two threads fell from 75 to 2 texts a second.
    """
    return max(1, (cores.usable() - 1) // max(1, lanes))

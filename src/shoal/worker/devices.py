"""Which devices this machine has and how its cores are shared among the lanes."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

from shoal import cores
from shoal.errors import ConfigError
from shoal.settings import WorkerSettings
from shoal.worker.lanespec import LaneSpec

KINDS = ("cpu", "cuda", "mps")
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
        ConfigError: a device of an unknown kind, or devices of several kinds.
    """
    devices: list[str] = []
    for name in settings.lanes:
        devices += _found() if name == "auto" else [name]
    for device in devices:
        if device.partition(":")[0] not in KINDS:
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
    gpus = sorted(Path("/dev").glob("nvidia[0-9]*"))
    return [f"cuda:{index}" for index in range(len(gpus))] or ["cpu"]


def _threads(lanes: int) -> int:
    """The cores we own less one for gateway, broker and the workers, divided among all lanes.

    On a contended core, two threads fell from 75 to 2 texts a second.
    """
    return max(1, (cores.usable() - 1) // max(1, lanes))

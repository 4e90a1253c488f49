"""How many bytes the models of each lane may hold: as told, or a share of what this process may use.

A lane whose device has memory of its own is not named here: its runtime says how much at its start.
"""

from __future__ import annotations

import os
from pathlib import Path

from shoal.settings import WorkerSettings
from shoal.worker.lanespec import LaneSpec

#: Share of the memory that models on CPU lanes may hold in all. The rest is for what no model
#: accounts for: 0.3 to 0.5 GB of libraries a runtime, the largest batch, gateway and broker beside it,
#: and the page cache that their files are read through.
CPU_SHARE = 0.6

_CGROUP = Path("/sys/fs/cgroup")


def budgets(settings: WorkerSettings, specs: list[LaneSpec]) -> dict[str, int]:
    """Bytes by lane, of those whose budget is known before their runtimes start."""
    if settings.memory_bytes:
        return {spec.id: settings.memory_bytes for spec in specs}
    shared = [spec for spec in specs if spec.device.partition(":")[0] in ("cpu", "mps")]
    if not shared:
        return {}
    share = int(usable_bytes() * CPU_SHARE) // (len(shared) * settings.workers)
    return {spec.id: share for spec in shared}


def usable_bytes(cgroup: Path = _CGROUP) -> int:
    """The machine's memory, or what the control group of this process is limited to."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(cgroup)])


def _limits(cgroup: Path) -> list[int]:
    """Limits of version 2 and of version 1; ``max``, or a number beyond any machine, is none."""
    found = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = (cgroup / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return found

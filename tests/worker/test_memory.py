"""What the models of each lane may hold."""

from pathlib import Path

import msgspec

from shoal.settings import WorkerSettings
from shoal.worker.lanespec import LaneSpec
from shoal.worker.memory import CPU_SHARE, budgets, usable_bytes

SETTINGS = WorkerSettings()
CPUS = [LaneSpec("cpu-0", "cpu", 1), LaneSpec("cpu-1", "cpu", 1)]
GPU = LaneSpec("cuda:0", "cuda:0", 1)


def test_cpu_lanes_divide_a_share_of_the_memory() -> None:
    found = budgets(SETTINGS, CPUS)
    assert set(found) == {"cpu-0", "cpu-1"}
    assert found["cpu-0"] == found["cpu-1"] == int(usable_bytes() * CPU_SHARE) // 2


def test_workers_of_one_machine_divide_it_too() -> None:
    of_three = msgspec.structs.replace(SETTINGS, workers=3)
    assert budgets(of_three, CPUS)["cpu-0"] == int(usable_bytes() * CPU_SHARE) // 6
    told = msgspec.structs.replace(of_three, memory_bytes=10**9)
    assert budgets(told, CPUS)["cpu-0"] == 10**9


def test_a_gpu_says_itself_what_it_has_unless_the_setting_does() -> None:
    assert budgets(SETTINGS, [GPU]) == {}
    told = msgspec.structs.replace(SETTINGS, memory_bytes=10**9)
    assert budgets(told, [GPU, CPUS[0]]) == {"cuda:0": 10**9, "cpu-0": 10**9}


def test_a_control_group_bounds_the_memory(tmp_path: Path) -> None:
    machine = usable_bytes(tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_bytes(tmp_path) == machine
    (tmp_path / "memory.max").write_text("123456789\n")
    assert usable_bytes(tmp_path) == 123456789


def test_a_control_group_of_the_first_version_too(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    limit = tmp_path / "memory" / "memory.limit_in_bytes"
    machine = usable_bytes(tmp_path)
    limit.write_text("9223372036854771712\n")  # none
    assert usable_bytes(tmp_path) == machine
    limit.write_text("1000000\n")
    assert usable_bytes(tmp_path) == 1000000

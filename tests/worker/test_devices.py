import pytest

from shoal.errors import ConfigError
from shoal.settings import WorkerSettings
from shoal.worker.devices import kinds_of, lanes_of


def test_a_lane_per_device_with_names_of_their_own() -> None:
    lanes = lanes_of(WorkerSettings(lanes=["cuda:0", "cuda:0", "cuda:1"], threads=3))
    assert [lane.id for lane in lanes] == ["cuda:0-0", "cuda:0-1", "cuda:1"]
    assert [lane.device for lane in lanes] == ["cuda:0", "cuda:0", "cuda:1"]
    assert {lane.threads for lane in lanes} == {3}


def test_cores_are_divided_among_the_lanes_of_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(9)), raising=False)
    assert lanes_of(WorkerSettings(lanes=["cpu", "cpu"]))[0].threads == 4
    assert lanes_of(WorkerSettings(lanes=["cpu", "cpu"], workers=2))[0].threads == 2
    assert lanes_of(WorkerSettings(lanes=["cpu"], workers=99))[0].threads == 1


def test_one_worker_has_devices_of_one_kind() -> None:
    with pytest.raises(ConfigError, match="start a worker for each"):
        lanes_of(WorkerSettings(lanes=["cpu", "cuda:0"]))


def test_auto_finds_something() -> None:
    assert lanes_of(WorkerSettings())


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(ConfigError, match="'gpu' is no device"):
        lanes_of(WorkerSettings(lanes=["gpu"]))


def test_profiles_go_from_the_special_to_the_general() -> None:
    assert kinds_of("cpu", None)[-1] == "cpu"
    assert kinds_of("cuda:1", None) == ("cuda",)
    assert kinds_of("cpu", "default") == ("default",)

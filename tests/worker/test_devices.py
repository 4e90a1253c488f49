from pathlib import Path

import pytest

from shoal.errors import ConfigError
from shoal.settings import WorkerSettings
from shoal.worker.devices import kinds_of, lanes_of, require


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


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "cpu ", ""])
def test_an_unknown_device_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' is no device"):
        lanes_of(WorkerSettings(lanes=[name]))


@pytest.mark.parametrize("node", ["nvidia0", "dxg", "nvmap", None])
def test_a_gpu_that_is_not_here_is_told(node: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    glob = Path.glob
    empty = Path("/nowhere")
    monkeypatch.setattr(
        "pathlib.Path.glob",
        lambda at, name: [at / node] if node and (at / node).match(name) else glob(empty, name),
    )
    lanes = lanes_of(WorkerSettings(lanes=["cuda:0"]))
    require(lanes_of(WorkerSettings(lanes=["cpu"])))
    if node is not None:
        require(lanes)
        return
    with pytest.raises(ConfigError, match="'cuda:0' is not here"):
        require(lanes)


def test_profiles_go_from_the_special_to_the_general() -> None:
    assert kinds_of("cpu", None)[-1] == "cpu"
    assert kinds_of("cuda:1", None) == ("cuda",)
    assert kinds_of("cpu", "default") == ("default",)


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        ("fpu avx2 avx512f avx512bw", ("cpu",)),
        ("fpu avx2 avx_vnni", ("cpu-int8", "cpu")),
        ("fpu avx512_vnni avx512_bf16", ("cpu-int8", "cpu-bf16", "cpu")),
        ("fpu amx_bf16", ("cpu-bf16", "cpu")),
    ],
)
def test_a_processor_is_known_by_its_flags(
    flags: str, kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: avx512_bf16 avx_vnni\n"
    monkeypatch.setattr("pathlib.Path.read_text", lambda _: told)
    assert kinds_of("cpu", None) == kinds


def test_elsewhere_than_on_linux_nothing_is_known_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr("pathlib.Path.read_text", none)
    assert kinds_of("cpu", None) == ("cpu",)

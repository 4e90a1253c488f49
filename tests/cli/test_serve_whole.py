"""`shoal serve` as a whole: real processes, started, asked, harmed and stopped."""

import contextlib
import json
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from shoal.worker.memory import CPU_SHARE, usable_bytes
from tests.cli.serving import Serving, descendants, living, serve, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_it_answers_tells_and_leaves_nothing(tmp_path: Path) -> None:
    with serve(tmp_path, "--gateways", "2", "--lanes", "cpu,cpu") as serving:
        running = serving.up()
        url = running["url"]
        assert serving.answers(url)
        assert running["models"] == ["fake"]
        until(lambda: f"at {url}" in serving.log, "the banner")

        seen = json.loads(serving.shoal("status", "--json"))
        [worker] = seen["workers"]
        assert worker["lanes"] == ["cpu-0", "cpu-1"]
        assert [(model["name"], model["state"]) for model in worker["models"]] == [
            ("fake", "resident")
        ]
        assert len(seen["gateways"]) == 2
        assert ("fake", 0) in [(depth["model"], depth["waiting"]) for depth in seen["queues"]]
        shown = serving.shoal("status")
        assert "resident" in shown
        assert "Queue: empty" in shown

        started = descendants(serving.process.pid)
        assert len(started) >= 6  # broker, two gateways, worker, two runtimes
        assert serving.interrupt() == 0
        assert not serving.announced()
        until(lambda: not living(started), f"all end: {living(started)}")


def test_workers_of_one_machine_share_its_memory(tmp_path: Path) -> None:
    with serve(tmp_path, "--workers", "2", "--lanes", "cpu") as serving:
        serving.up()
        seen = json.loads(serving.shoal("status", "--json"))
        budgets = [worker["memory"]["cpu"]["budget_bytes"] for worker in seen["workers"]]
        assert budgets == [int(usable_bytes() * CPU_SHARE) // 2] * 2


def test_what_is_killed_comes_back_in_its_place(tmp_path: Path) -> None:
    with serve(tmp_path) as serving:
        running = serving.up()
        for part in ("shoal gateway", "shoal worker", "nats-server"):
            until(serving.signal(part, signal.SIGKILL), f"{part} is back")
            until(lambda: serving.answers(running["url"]), f"answers after {part} was killed")
        assert serving.log.count("was killed by SIGKILL; starting it again") == 3
        assert serving.interrupt() == 0


def test_nothing_outlives_a_killed_serve(tmp_path: Path) -> None:
    with serve(tmp_path) as serving:
        serving.up()
        started = descendants(serving.process.pid)
        serving.process.kill()
        serving.process.wait()
        until(lambda: not living(started), "all children end")


def test_a_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    with serve(tmp_path, "--drain-s", "60") as serving:
        url = serving.up()["url"]
        started = descendants(serving.process.pid)
        serving.signal("shoal worker", signal.SIGSTOP)  # so that draining cannot end
        with contextlib.suppress(httpx.TransportError):  # accepted, then the gateway is killed
            assert _ask_and_interrupt_twice(serving, url) == 503  # it heard the interrupt first
        serving.process.wait(20)
        until(lambda: not living(started), "all children end")


def _ask_and_interrupt_twice(serving: Serving, url: str) -> int:
    with httpx.Client() as http:
        request = http.build_request("POST", f"{url}/v1/encode/fake", content=_slow(serving))
        return http.send(request).status_code


def _slow(serving: Serving):  # type: ignore[no-untyped-def]
    yield b'{"items": ["a"'
    serving.process.send_signal(signal.SIGINT)
    until(lambda: "once more to stop at once" in serving.log, "the first interrupt is heard")
    serving.process.send_signal(signal.SIGINT)
    serving.process.wait(20)
    yield b"]}"


def test_an_interrupt_ends_a_download_that_does_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
        with serve(tmp_path, "an/other") as serving:
            silent.settimeout(60)
            connection, _ = silent.accept()
            with connection:
                assert serving.interrupt() == 130


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["--broker-url", "nats://127.0.0.1:9"], 75, "error: cannot reach the broker"),
        (["--lanes", "gpu9"], 2, "lanes: 'gpu9' is no device"),
        (["--health-host", "203.0.113.1"], 1, "the worker"),
        (["--broker-binary", "/nowhere"], 1, "broker_binary: /nowhere is not an executable"),
        (["--catalog", "/nowhere.yaml"], 2, "/nowhere.yaml: no such card file"),
    ],
)
def test_what_cannot_work_ends_with_one_clear_line(
    tmp_path: Path, args: list[str], code: int, told: str
) -> None:
    with serve(tmp_path, *args) as serving:
        assert serving.process.wait(60) == code, serving.log
        last = serving.log.strip().splitlines()[-1]
        assert last.startswith("error: ")
        assert told in last

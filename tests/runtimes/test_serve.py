"""The runtime's end of the socket, seen by a worker that sends raw bytes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cores import YIELDS
from shoal.errors import ConfigError
from shoal.runtimes import serve
from shoal.settings import RuntimeSettings
from shoal.wire import socket as m
from shoal.wire.frames import FrameReader, frame_of

DEADLINE_S = 30.0


class RawWorker:
    """One fake runtime, connected; `hello` was read."""

    def __init__(self, path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            listener.settimeout(DEADLINE_S)
            self.runtime = subprocess.Popen(
                [sys.executable, "-m", "shoal.runtimes.serve", "kind=fake", f"socket={path}"],
                stderr=subprocess.PIPE,
                text=True,
            )
            self.socket, _ = listener.accept()
        self.socket.settimeout(DEADLINE_S)
        self._reader = FrameReader()
        self._frames: list[memoryview] = []
        assert isinstance(self.read(), m.Hello)

    def read(self) -> m.FromRuntime | None:
        """The next message, or None at the end."""
        while not self._frames:
            count = self.socket.recv_into(self._reader.buffer())
            if not count:
                return None
            self._frames = list(self._reader.received(count))
        return m.decode_from_runtime(self._frames.pop(0))

    def rss_bytes(self) -> int:
        """What the runtime holds now; nothing else may be on its way."""
        self.socket.sendall(frame_of(m.AskStats()))
        stats = self.read()
        assert isinstance(stats, m.Stats)
        return stats.rss_bytes

    def end(self) -> tuple[int, str]:
        """Exit status and stderr."""
        _, errors = self.runtime.communicate(timeout=DEADLINE_S)
        return self.runtime.returncode, errors


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[RawWorker]:
    raw = RawWorker(tmp_path / "s")
    yield raw
    raw.socket.close()
    raw.runtime.kill()
    raw.runtime.communicate()


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"\xff\xff\xff\xff", "over the limit"),
        (b"\x00\x00\x00\x05hello", "frame from the worker"),
        (bytes(frame_of(m.Loaded("m", 1, 1.0))), "'loaded'"),
    ],
)
def test_garbage_is_answered_with_bye(worker: RawWorker, garbage: bytes, reason: str) -> None:
    worker.socket.sendall(garbage)
    bye = worker.read()
    assert isinstance(bye, m.Bye)
    assert reason in bye.reason
    assert worker.read() is None
    status, errors = worker.end()
    assert status == 1
    assert reason in errors


@pytest.mark.skipif(sys.platform != "linux", reason="a priority for each thread is Linux's")
def test_on_cpus_it_lets_event_loops_go_first(worker: RawWorker) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, worker.runtime.pid) == min(own + YIELDS, 19)


def test_bye_ends_it(worker: RawWorker) -> None:
    worker.socket.sendall(frame_of(m.Bye()))
    assert worker.read() is None
    assert worker.end() == (0, "")


def test_the_workers_end_ends_it(worker: RawWorker) -> None:
    worker.socket.close()
    assert worker.end() == (0, "")


def test_a_worker_that_leaves_before_its_answer_is_no_failure(worker: RawWorker) -> None:
    load = m.Load("m", "", "fake", {}, options={"load_s": 0.2})
    worker.socket.sendall(frame_of(load) + frame_of(m.Unload("m")))
    worker.socket.close()
    assert worker.end()[0] == 0


def test_sigterm_says_bye_after_the_call_in_progress(worker: RawWorker) -> None:
    before = worker.rss_bytes()
    held = 64 << 20
    options = {"load_s": 2.0, "bytes": held, "holds": True}
    load = m.Load("m", "", "fake", {}, options=options)
    worker.socket.sendall(frame_of(load))
    while worker.rss_bytes() < before + held // 2:  # the load has begun
        pass
    worker.runtime.send_signal(signal.SIGTERM)
    assert isinstance(worker.read(), m.Loaded)
    assert worker.read() == m.Bye("terminated")
    assert worker.end()[0] == 0


def test_sigterm_while_an_unload_waits_for_a_batch(worker: RawWorker) -> None:
    options = {"inputs": "text", "slow": "slow", "slow_s": 0.3}
    worker.socket.sendall(frame_of(m.Load("m", "", "fake", {"dense": {}}, options=options)))
    assert isinstance(worker.read(), m.Loaded)
    run = m.Run(1, "m", ["dense"], texts=["slow"])
    worker.socket.sendall(frame_of(run) + frame_of(m.Unload("m")) + frame_of(m.AskStats()))
    assert isinstance(worker.read(), m.Stats)
    worker.runtime.send_signal(signal.SIGTERM)
    answers = list(iter(worker.read, None))
    assert answers[-1] == m.Bye("terminated")
    assert all(isinstance(answer, m.Done | m.Unloaded) for answer in answers[:-1])
    assert worker.end()[0] == 0


def test_a_load_beyond_the_device_is_out_of_memory(worker: RawWorker) -> None:
    load = m.Load("m", "", "fake", {}, options={"bytes": 2, "device_bytes": 1})
    worker.socket.sendall(frame_of(load))
    failed = worker.read()
    assert isinstance(failed, m.Failed)
    assert (failed.code, failed.model, failed.batch) == ("out_of_memory", "m", None)


def test_an_unforeseen_error_is_answered_and_survived(worker: RawWorker) -> None:
    options = {"inputs": "text"}
    load = m.Load("m", "", "fake", {"dense": {"dim": "wide"}}, options=options)
    worker.socket.sendall(frame_of(load))
    assert isinstance(worker.read(), m.Loaded)
    worker.socket.sendall(frame_of(m.Run(5, "m", ["dense"], texts=["x"])))
    failed = worker.read()
    assert isinstance(failed, m.Failed)
    assert (failed.code, failed.batch) == ("internal", 5)
    assert failed.message.startswith("ValueError: invalid literal")
    worker.socket.sendall(frame_of(m.Unload("m")))
    assert worker.read() == m.Unloaded("m")


def test_memory_that_python_lacks_is_out_of_memory(worker: RawWorker) -> None:
    load = m.Load("m", "", "fake", {"dense": {"dim": 2**44}}, options={"inputs": "text"})
    worker.socket.sendall(frame_of(load))
    assert isinstance(worker.read(), m.Loaded)
    worker.socket.sendall(frame_of(m.Run(5, "m", ["dense"], texts=["x"])))
    failed = worker.read()
    assert isinstance(failed, m.Failed)
    assert (failed.code, failed.batch) == ("out_of_memory", 5)


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown runtime kind 'tosh'.*mean 'torch'"):
        serve.run(RuntimeSettings(kind="tosh", socket="/none"))


def test_no_worker_at_the_socket(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no worker listens at .*: No such file"):
        serve.run(RuntimeSettings(kind="fake", socket=str(tmp_path / "none")))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nonsense", "expected key=value, got 'nonsense'"),
        ("knd=fake", "unknown setting 'knd' (did you mean 'kind'?)"),
        ("threads=0", "setting 'threads'"),
    ],
)
def test_a_wrong_command_line(argument: str, message: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "shoal.runtimes.serve", argument],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 1
    assert message in ended.stderr


def test_torch_is_not_imported_for_other_kinds() -> None:
    script = "import sys, shoal.runtimes.serve as s; s.KINDS['fake']; print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stdout.strip() == "False"


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "shoal.runtimes.torch.runtime", raising=False)
    with pytest.raises(ConfigError, match=r"needs the package 'torch'.*shoal\[torch\]"):
        serve.run(RuntimeSettings(kind="torch", socket="/none"))

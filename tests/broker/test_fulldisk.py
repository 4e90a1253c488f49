"""A disk that runs full under a real nats-server, and is given room again."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.broker import server as module
from shoal.broker import store
from shoal.broker.connection import Connection
from shoal.broker.fulldisk import FullDisk
from shoal.broker.server import BrokerServer
from shoal.broker.streams import ensure_streams
from shoal.errors import ShoalError
from shoal.settings import CommonSettings

from .harness import SUBJECT

MB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MB; only root may make one."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode:
        pytest.skip("cannot make a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def stored(connection: Connection, number: int) -> bool:
    try:
        async with asyncio.timeout(5):
            await connection.publish_unit(SUBJECT, bytes(MB), 60, f"u{number}")
    except (ShoalError, TimeoutError):
        return False
    return True


async def test_a_broker_whose_disk_was_full_works_again_once_there_is_room(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_MIN_FREE_BYTES", 16 * MB)
    monkeypatch.setattr(module, "_LOOK_S", 0.1)
    server = BrokerServer(CommonSettings(store_dir=str(small_disk / "store")))
    await server.start()
    settings = CommonSettings(broker_url=server.url)
    connection = await Connection.open(settings, "test")
    await ensure_streams(connection)
    ends = asyncio.create_task(server.wait())
    filler = small_disk / "filler"
    filler.write_bytes(bytes(24 * MB))
    kept = 0
    while await stored(connection, kept):
        kept += 1
    assert kept > 4
    filler.unlink()
    assert await asyncio.wait_for(ends, 60) is not None

    await server.start()
    async with asyncio.timeout(60):
        while not await stored(connection, kept + 1):
            await asyncio.sleep(0.05)
    answer = await connection.api("STREAM.INFO.shoal-work", {}, dict)
    assert answer["state"]["messages"] >= kept
    await connection.close()
    await server.stop()


def test_only_a_disk_that_was_full_makes_a_restart_due(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_bytes(b"of an earlier process: no space left on device\n")
    disk = FullDisk(log, log.stat().st_size + 100, room_bytes=1)
    assert not disk.restart_due()
    with log.open("ab") as file:
        file.write(b"x" * 200 + b"[ERR] no space left")
    assert not disk.restart_due()
    with log.open("ab") as file:
        file.write(b" on device\n")
    assert disk.restart_due()


def test_there_must_be_room_first(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_bytes(b"no space left on device\n")
    disk = FullDisk(log, 0, room_bytes=1 << 60)
    assert not disk.restart_due()
    assert disk.was_full

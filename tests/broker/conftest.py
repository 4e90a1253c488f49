"""A real nats-server per test, and what talks to it."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from shoal.broker.connection import Connection
from shoal.broker.pulls import Puller
from shoal.broker.server import BrokerServer
from shoal.broker.streams import ensure_consumer, ensure_streams
from shoal.settings import CommonSettings

from .harness import MODEL, POOL, Connect, Recorder


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path / "store")))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def settings(broker: BrokerServer) -> CommonSettings:
    return CommonSettings(broker_url=broker.url)


@pytest.fixture
async def connect(settings: CommonSettings) -> AsyncIterator[Connect]:
    """Opens connections that are closed at the end."""
    opened: list[Connection] = []

    async def open_(**changes: object) -> Connection:
        callbacks = {key: changes.pop(key) for key in list(changes) if key.startswith("on_")}
        with_changes = msgspec.structs.replace(settings, **changes)
        connection = await Connection.open(with_changes, "test", **callbacks)  # type: ignore[arg-type]
        opened.append(connection)
        return connection

    yield open_
    for connection in opened:
        await connection.close()


@pytest.fixture
async def connection(connect: Connect) -> Connection:
    """A connection to a broker that has the streams and one consumer."""
    made = await connect()
    await ensure_streams(made)
    await ensure_consumer(made, "work", POOL, MODEL, 30.0)
    return made


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def puller(connection: Connection, recorder: Recorder) -> Puller:
    return Puller(connection, recorder.on_delivery, recorder.on_end)

"""A real broker, a real worker with the fake runtime, and a scripted gateway."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from shoal.broker.connection import Connection
from shoal.broker.server import BrokerServer
from shoal.broker.streams import ensure_streams
from shoal.settings import CommonSettings, WorkerSettings
from shoal.worker.service import Worker

from .scripted import ScriptedGateway, until

CARD = """\
name: {name}
source: {{dir: .}}
family: fake
tasks:
  encode: {{dense: {{dim: {dim}}}}}
max_tokens: 512
profiles:
  default:
    runtime: fake
    max_batch_items: 64
    options: {options}
    cost: {{base_s: 0.0005, token_s: 0.0, item_s: 0.00001}}
"""

StartWorker = Callable[..., Awaitable[Worker]]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path / "store")))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def gateway(broker: BrokerServer) -> AsyncIterator[ScriptedGateway]:
    connection = await Connection.open(CommonSettings(broker_url=broker.url), "scripted")
    await ensure_streams(connection)
    yield ScriptedGateway(connection)
    await connection.close()


@pytest.fixture
async def start_worker(
    broker: BrokerServer, gateway: ScriptedGateway, tmp_path: Path
) -> AsyncIterator[StartWorker]:
    """Starts workers that serve `fake`; options of the fake runtime as a dict, settings as keywords."""
    async with AsyncExitStack() as stack:

        async def start(
            options: dict[str, object] | None = None, dim: int = 8, **changes: object
        ) -> Worker:
            text = msgspec.json.encode({"inputs": "text"} | (options or {})).decode()
            card = tmp_path / "fake.yaml"
            card.write_text(CARD.format(name="fake", options=text, dim=dim))
            settings = WorkerSettings(
                broker_url=broker.url, catalog=[str(card)], models=["fake"], ack_wait_s=1.0
            )
            worker = Worker(msgspec.structs.replace(settings, **changes))
            stack.push_async_callback(worker.close)
            await worker.start()
            pinned = [worker.core.models[name] for name in worker.core.pinned]
            await until(lambda: all(model.state in ("resident", "failed") for model in pinned))
            return worker

        yield start

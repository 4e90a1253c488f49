"""Gateways as processes: start, share a port, drain, and fail with a reason."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from shoal.broker.server import BrokerServer
from shoal.errors import ConfigError
from shoal.gateway.main import bind
from shoal.settings import GatewaySettings
from tests.gateway.conftest import MODEL, until
from tests.gateway.held import Held
from tests.gateway.scripted import ScriptedWorker, embed

pytestmark = pytest.mark.asyncio(loop_scope="session")

CARD = f"""
name: {MODEL}
source: {{dir: /nowhere}}
family: bert
tasks:
  encode: {{dense: {{dim: 8, pooling: mean, normalize: true}}}}
max_tokens: 256
"""
PROGRAM = """
import sys
import msgspec
from shoal.gateway.main import run
from shoal.settings import GatewaySettings
settings = msgspec.json.decode(sys.argv[1], type=GatewaySettings)
run(settings, lambda url: print(url, flush=True))
"""


class Process:
    """One gateway process that listens."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.url = url

    async def encode(self, http: httpx.AsyncClient) -> httpx.Response:
        return await http.post(f"{self.url}/v1/encode/{MODEL}", json={"items": ["a"]})


@contextlib.asynccontextmanager
async def started(settings: GatewaySettings) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        msgspec.json.encode(settings).decode(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
    try:
        yield Process(process, url)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def settings(broker: BrokerServer, tmp_path: Path) -> GatewaySettings:
    (tmp_path / "card.yaml").write_text(CARD)
    return GatewaySettings(
        broker_url=broker.url,
        port=0,
        catalog=[str(tmp_path / "card.yaml")],
        log_level="warning",
        drain_s=90,
    )


async def test_sigterm_drains(settings: GatewaySettings, worker: ScriptedWorker) -> None:
    async with started(settings) as gateway, httpx.AsyncClient() as http:
        held = Held(worker)
        waiting = asyncio.create_task(gateway.encode(http))
        await until(lambda: held.units)
        gateway.process.send_signal(signal.SIGTERM)
        refused = await http.get(f"{gateway.url}/readyz")
        while refused.status_code == 200 or "shutting down" not in refused.text:
            refused = await http.get(f"{gateway.url}/readyz")
        assert refused.status_code == 503
        late = await gateway.encode(http)
        assert (late.status_code, late.json()["error"]["retryable"]) == (503, True)
        held.send(0)
        assert (await waiting).status_code == 200
        assert await asyncio.wait_for(gateway.process.wait(), 60) == 0


@pytest.mark.parametrize("again", [True, False], ids=["a second signal", "time is up"])
async def test_what_is_not_waited_for_is_told_so(
    settings: GatewaySettings, worker: ScriptedWorker, again: bool
) -> None:
    settings = msgspec.structs.replace(settings, drain_s=90 if again else 0.5)
    async with started(settings) as gateway, httpx.AsyncClient() as http:
        held = Held(worker)
        waiting = asyncio.create_task(gateway.encode(http))
        reader, writer = await half_a_body(gateway.url)
        await until(lambda: held.units)
        gateway.process.send_signal(signal.SIGTERM)
        if again:
            while "shutting down" not in (await http.get(f"{gateway.url}/readyz")).text:
                pass
            gateway.process.send_signal(signal.SIGTERM)
        answer = await waiting
        assert (answer.status_code, answer.json()["error"]["retryable"]) == (503, True)
        assert "shutting down" in answer.json()["error"]["message"]
        _, said = await asyncio.wait_for(gateway.process.communicate(), 60)
        assert b"503" in await reader.readline()
        writer.close()
        assert gateway.process.returncode == 0
        assert b"Traceback" not in said


async def half_a_body(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request whose body does not come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
    head = f"POST /v1/encode/{MODEL} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n"
    writer.write(head.encode() + b"content-length: 99\r\n\r\n{")
    await writer.drain()
    return reader, writer


async def test_processes_share_a_port_and_one_may_leave(
    settings: GatewaySettings, worker: ScriptedWorker
) -> None:
    reserved = bind(msgspec.structs.replace(settings, reuse_port=True))
    port = reserved.getsockname()[1]
    shared = msgspec.structs.replace(settings, port=port, reuse_port=True)
    async with started(shared) as first, started(shared), httpx.AsyncClient() as http:
        worker.answer = embed
        first.process.terminate()
        assert await asyncio.wait_for(first.process.wait(), 60) == 0
        for _ in range(20):
            async with httpx.AsyncClient() as fresh:
                assert (await first.encode(fresh)).status_code == 200
        assert (await first.encode(http)).status_code == 200
    reserved.close()


async def test_a_taken_port_says_so(settings: GatewaySettings) -> None:
    holder = bind(settings)
    holder.listen()
    taken = msgspec.structs.replace(settings, port=holder.getsockname()[1])
    with pytest.raises(ConfigError, match="set another port"):
        bind(taken)
    holder.close()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"broker_url": "nats://127.0.0.1:1"}, b"cannot reach the broker"),
        ({"payload_url": "ftp://there"}, b"payload_url 'ftp://there' must begin with one of"),
        ({"api_key": ""}, b"'api_key' is empty"),
    ],
)
async def test_what_it_cannot_work_with_ends_it_with_the_reason(
    settings: GatewaySettings, changes: dict[str, str], reason: bytes
) -> None:
    wrong = msgspec.structs.replace(settings, **changes)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        msgspec.json.encode(wrong).decode(),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert reason in errors
    assert b"never retrieved" not in errors

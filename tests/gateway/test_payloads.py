"""Items too large for the queue: published as references, uploaded beside, deleted afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from shoal.broker.server import BrokerServer
from shoal.catalog.tasks import ScoreTask
from shoal.errors import PayloadTooLarge
from shoal.gateway.body import BodyDecoder, ItemLimits, checked_items
from shoal.gateway.encode import EncodeBody
from shoal.gateway.job import Job
from shoal.gateway.payloads import UPLOADS, Uploads
from shoal.settings import GatewaySettings
from shoal.tasks.answering import answer_size
from shoal.tasks.reading import reading_of
from shoal.telemetry.metrics import GatewayMetrics
from shoal.values import ScoreParams
from tests.gateway.conftest import Served, card, serving, until
from tests.gateway.held import Held
from tests.gateway.scripted import ScriptedWorker
from tests.gateway.writing import Writing

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE = "fish " * 600_000  # 3 MB


class Store:
    """The folder behind a gateway's payload store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keys(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


class SlowStore:
    """Speaks as much S3 as takes an object, and answers no call before it is told to."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.puts = 0

    async def __aenter__(self) -> SlowStore:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 23)
        port = self._server.sockets[0].getsockname()[1]
        self.environ = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @contextlib.asynccontextmanager
    async def answering_at_last(self) -> AsyncIterator[None]:
        """Whatever a test found, the gateway can end its uploads."""
        try:
            yield
        finally:
            self.answer.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = re.search(rb"content-length: (\d+)", head)
                size = int(length[1]) if length else 0
                await reader.readexactly(size)
                self.puts += head.startswith(b"put") and size > 0  # not the mark of a sweep
                await self.answer.wait()
                writer.write(b'HTTP/1.1 200 OK\r\netag: "1"\r\ncontent-length: 0\r\n\r\n')
        writer.close()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("gateway-payloads"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running(
    broker: BrokerServer, running_worker: ScriptedWorker, store: Store
) -> AsyncIterator[Served]:
    async with serving(broker, payload_url=store.folder.as_uri()) as served:
        await until(lambda: not served.app.gateway.missing())
        yield served


@pytest.fixture
def gateway(running: Served, worker: ScriptedWorker) -> Served:
    return running


async def test_a_large_item_is_a_reference_and_its_neighbours_are_not(
    gateway: Served, worker: ScriptedWorker, store: Store
) -> None:
    held = Held(worker)
    asking = asyncio.create_task(gateway.encode(["small", LARGE]))
    await until(lambda: sum(len(unit.items) for unit, _ in held.units) == 2)
    units = [unit for unit, _ in held.units]
    (large,) = [unit for unit in units if unit.payloads]
    ((position, payload),) = large.payloads.items()
    assert large.items[position] == b""
    assert payload.bytes == len(LARGE) + 2
    await until(lambda: store.keys() == [payload.key])
    assert (store.folder / payload.key).read_bytes() == f'"{LARGE}"'.encode()
    assert {item for unit in units for item in unit.items} == {b'"small"', b""}
    for number in range(len(units)):
        held.send(number)
    assert (await asking).status_code == 200
    await until(lambda: not store.keys())


async def test_a_body_is_let_go_once_it_is_uploaded(
    gateway: Served, worker: ScriptedWorker, store: Store
) -> None:
    held, bodies = Held(worker), gateway.app.gateway.bodies
    asking = asyncio.create_task(gateway.encode([LARGE, "small"]))
    await until(lambda: len(store.keys()) == 1 and bodies.held_bytes == 0)
    await until(lambda: len(held.units) == 2)
    assert not asking.done()
    held.send(0), held.send(1)
    assert (await asking).status_code == 200
    assert bodies.held_bytes == 0


async def test_a_deadline_takes_the_payload_along(
    gateway: Served, worker: ScriptedWorker, store: Store
) -> None:
    Held(worker)
    answer = await gateway.encode([LARGE], headers={"X-Request-Timeout": "0.3"})
    assert answer.status_code == 504
    await until(lambda: not store.keys())


async def test_a_caller_that_leaves_takes_it_along_too(
    gateway: Served, worker: ScriptedWorker, store: Store
) -> None:
    held = Held(worker)
    asking = asyncio.create_task(gateway.encode([LARGE]))
    await until(lambda: held.units and store.keys())
    asking.cancel()
    await until(lambda: not store.keys())


async def test_uploads_are_counted(gateway: Served, worker: ScriptedWorker, store: Store) -> None:
    held, bodies = Held(worker), gateway.app.gateway.bodies
    name = 'shoal_gateway_payloads_total{outcome="uploaded"}'
    before = await gateway.metric(name)
    asking = asyncio.create_task(gateway.encode([LARGE, LARGE]))
    await until(lambda: len(store.keys()) == 2 and held.units and bodies.held_bytes == 0)
    held.send_all()
    assert (await asking).status_code == 200
    assert await gateway.metric(name) == before + 2


async def test_what_is_asked_several_times_is_uploaded_once_and_stays_until_the_last_answer(
    gateway: Served, worker: ScriptedWorker, store: Store
) -> None:
    writing = Writing(worker)
    name = 'shoal_gateway_payloads_total{outcome="uploaded"}'
    before = await gateway.metric(name)
    body = {"model": "storyteller", "prompt": ["small", LARGE], "n": 3}
    asking = asyncio.create_task(gateway.http.post("/v1/completions", json=body))
    await until(lambda: len(store.keys()) == 1 and gateway.app.gateway.bodies.held_bytes == 0)
    (key,) = store.keys()
    assert (store.folder / key).read_bytes() == f'"{LARGE}"'.encode()
    for number in range(6):  # one answer lets the next unit go
        unit = await writing.come(number + 1)
        assert unit.items == ([b""] if unit.payloads else [b'"small"'])
        assert store.keys() == [key]
        writing.whole("a text", number=number)
    assert len((await asking).json()["choices"]) == 6
    told = [payload.key for unit, _ in writing.units for payload in unit.payloads.values()]
    assert told == [key] * 3
    assert await gateway.metric(name) == before + 1
    await until(lambda: not store.keys())


async def test_what_a_crash_left_is_swept_at_start_and_counted(
    broker: BrokerServer, worker: ScriptedWorker, tmp_path: Path
) -> None:
    for name, age_s in (("g0-1.0", 1000), ("g0-2.0.ab.part", 1000), ("g1-1.0", 0)):
        (tmp_path / name).write_bytes(b"left")
        os.utime(tmp_path / name, (time.time() - age_s, time.time() - age_s))
    settings = {"payload_url": tmp_path.as_uri(), "max_timeout_s": 600.0, "payload_sweep_s": 300.0}
    async with serving(broker, **settings) as served:
        await until(lambda: len(list(tmp_path.iterdir())) == 1)
        assert (tmp_path / "g1-1.0").exists(), "it may still be in flight"
        assert await served.metric('shoal_gateway_payloads_total{outcome="swept"}') == 2


async def test_a_store_that_fails_is_503_and_the_unit_is_called_off(
    broker: BrokerServer, worker: ScriptedWorker, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    held = Held(worker)
    async with serving(broker, payload_url=(tmp_path / "file").as_uri()) as served:
        await until(lambda: not served.app.gateway.missing())
        answer = await served.encode([LARGE])
        assert answer.status_code == 503
        error = answer.json()["error"]
        assert (error["code"], error["retryable"]) == ("unavailable", True)
        assert int(answer.headers["retry-after"]) >= 1
        await until(lambda: held.units)
        await until(lambda: held.units[0][0].request in worker.cancelled)


async def test_a_body_counts_until_its_upload_ends_and_no_upload_begins_after_its_request(
    broker: BrokerServer, worker: ScriptedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    Held(worker)
    async with SlowStore() as slow:
        for name, value in slow.environ.items():
            monkeypatch.setenv(name, value)
        settings = {"payload_url": "s3://bucket", "max_queue_s": 1000.0}
        async with serving(broker, **settings) as served, slow.answering_at_last():
            await until(lambda: not served.app.gateway.missing())
            bodies, most = served.app.gateway.bodies, UPLOADS + 4
            asking = [asyncio.create_task(served.encode([LARGE])) for _ in range(most)]
            inflight = served.app.gateway.inflight
            await until(lambda: inflight.requests == most and slow.puts == UPLOADS)
            body_bytes = bodies.held_bytes // most
            for task in asking:
                task.cancel()
            await until(lambda: bodies.held_bytes == UPLOADS * body_bytes)
            assert inflight.requests == 0
            slow.answer.set()
            await until(lambda: bodies.held_bytes == 0)
            assert slow.puts == UPLOADS


async def test_without_a_store_a_large_item_is_413_that_names_the_setting(
    broker: BrokerServer, worker: ScriptedWorker
) -> None:
    async with serving(broker) as served:
        await until(lambda: not served.app.gateway.missing())
        assert (await served.encode(["x" * 900_000])).status_code == 200
        answer = await served.encode(["small", LARGE])
        assert answer.status_code == 413
        assert "set payload_url" in answer.json()["error"]["message"]


async def test_a_long_query_makes_no_document_too_large_for_the_queue() -> None:
    """Only the broker's own limit is for both together."""
    settings = GatewaySettings(payload_bytes=4096)
    uploads = Uploads(settings, 80_000, GatewayMetrics(), lambda event: None)
    query = ScoreParams(b"q" * 50_000)
    for head in ("cross-encoder", "maxsim"):
        scoring = card(score=ScoreTask(head))
        size = answer_size(query, scoring.tasks, scoring.max_tokens)
        reading = reading_of(query, scoring.tasks)
        job = Job("k", scoring, size, query, "json", [b"d" * 4000], 1.0, reading)
        assert uploads.of(job) == {}
        with pytest.raises(PayloadTooLarge, match="above 4096"):
            uploads.of(msgspec.structs.replace(job, items=[b"d" * 4097]))


async def test_the_broker_s_own_limit_counts_where_it_is_lower(
    gateway: Served, worker: ScriptedWorker
) -> None:
    uploads = gateway.app.gateway.inflight.uploads
    assert uploads.above_bytes == 1_000_000, "the broker takes 8 MiB"


async def test_reading_sixty_megabytes_copies_nothing() -> None:
    decoder = BodyDecoder(EncodeBody)
    body = bytearray(msgspec.msgpack.encode({"items": [b"x" * 3_000_000] * 20}))
    items = checked_items(
        decoder.decode(body, "msgpack").items, "msgpack", ItemLimits(100, 10, 1 << 25), "items"
    )
    assert all(isinstance(item, memoryview) for item in items)
    body[-1] = ord("y")
    assert items[-1][-1] == ord("y"), "it is a piece of the body"

"""Settling, deadlines, callers that leave, workers that answer twice, brokers that go away."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.bench.processes import paused
from shoal.broker.connection import Connection
from shoal.broker.server import BrokerServer
from shoal.settings import CommonSettings
from shoal.values import TrafficClass
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import ModelPulse, Reply, ReplyPart, Unit
from tests.gateway.conftest import MODEL, Served, serving, until
from tests.gateway.held import Held, costly
from tests.gateway.scripted import ScriptedWorker, embed

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_worker_is_told_once_the_answer_is_held(
    gateway: Served, worker: ScriptedWorker
) -> None:
    assert (await gateway.encode(["a"])).status_code == 200
    await until(lambda: worker.units[0].id in worker.confirmed)


async def test_a_second_answer_is_dropped_counted_and_confirmed(
    gateway: Served, worker: ScriptedWorker
) -> None:
    before = await gateway.metric("shoal_gateway_duplicate_replies_total")

    def twice(unit: Unit, ack: str) -> Reply:
        worker.send(unit, embed(unit, ack))
        return embed(unit, ack)

    worker.answer = twice
    assert (await gateway.encode(["a"])).status_code == 200
    await until(lambda: worker.confirmed.count(worker.units[0].id) == 2)
    assert await gateway.metric("shoal_gateway_duplicate_replies_total") == before + 1


async def test_an_answer_in_parts_is_joined(gateway: Served, worker: ScriptedWorker) -> None:
    def in_parts(unit: Unit, ack: str) -> None:
        whole = encode(embed(unit, ack))
        size = -(-len(whole) // 3)
        parts = [whole[n * size : (n + 1) * size] for n in range(3)]
        for number in (2, 0, 0, 1):
            part = ReplyPart(unit.id, "w", number, 3, parts[number])
            worker.connection.publish(unit.reply_to, encode(part), f"{worker.inbox}.parts")

    worker.answer = in_parts
    response = await gateway.encode(["abc"])
    assert response.json()["items"][0]["dense"][0] == 5.0
    await until(lambda: "parts" in worker.confirmed)


async def test_garbage_on_the_reply_subject_is_counted_and_survived(
    gateway: Served, worker: ScriptedWorker
) -> None:
    held = Held(worker)
    waiting = asyncio.create_task(gateway.encode(["a"]))
    await until(lambda: held.units)
    to = held.units[0][0].reply_to
    for garbage in (b"", b"\xc1", encode(ReplyPart("u.0", "w", 5, 3, b"")), b"\x93" * 10_000):
        worker.connection.publish(to, garbage)
    held.send(0)
    assert (await waiting).status_code == 200


async def test_the_deadline_is_504_and_the_unit_is_cancelled(
    gateway: Served, worker: ScriptedWorker
) -> None:
    held = Held(worker)
    response = await gateway.encode(["a"], headers={"x-request-timeout": "1"})
    assert response.status_code == 504
    assert response.json()["error"]["retryable"] is True
    await until(lambda: worker.cancelled == [unit.request for unit in worker.units] != [])
    held.send(0)
    await until(lambda: worker.units[0].id in worker.confirmed)


async def test_a_caller_that_leaves_cancels_its_units(
    gateway: Served, worker: ScriptedWorker
) -> None:
    await costly(gateway, worker, 0.1)
    held = Held(worker)
    asking = asyncio.create_task(gateway.encode(["a"] * 20))
    await held.come(2)
    asking.cancel()
    await until(lambda: worker.cancelled == [worker.units[0].request])
    assert len(held.units) == 2
    assert gateway.app.gateway.inflight.units == 0


async def _queued(connection: Connection, klass: TrafficClass = "work") -> int:
    subject = f"STREAM.INFO.{subjects.stream(klass)}"
    info: dict[str, Any] = await connection.api(subject, {}, dict[str, Any])
    return int(info["state"]["messages"]) if "state" in info else -1  # there is no stream yet


async def _until_queued(connection: Connection, count: int, klass: TrafficClass = "work") -> None:
    async with asyncio.timeout(30):
        while await _queued(connection, klass) != count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("klass", subjects.CLASSES)
async def test_what_nobody_waits_for_leaves_the_queue_though_no_worker_comes(
    tmp_path: Path, klass: TrafficClass
) -> None:
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path)))
    await server.start()
    connection = await Connection.open(CommonSettings(broker_url=server.url), "test")
    async with serving(server) as served:
        headers = {"x-class": klass}
        leaving = asyncio.create_task(served.encode(["a"] * 3, headers=headers))
        staying = asyncio.create_task(served.encode(["b"], headers=headers))
        await _until_queued(connection, 2, klass)
        leaving.cancel()
        await _until_queued(connection, 1, klass)
        inflight = served.app.gateway.inflight
        assert inflight.requests == 1
        # The broker takes the unit only after its caller has left.
        with paused([server.pid or 0]):
            late = asyncio.create_task(served.encode(["c"], headers=headers))
            await until(lambda: inflight.requests == 2)
            late.cancel()
            await until(lambda: inflight.requests == 1)
        await _until_queued(connection, 1, klass)
        staying.cancel()
        await _until_queued(connection, 0, klass)
        assert not inflight.outstanding()
    await connection.close()
    await server.stop()


async def test_places_on_a_queue_that_was_lost_are_forgotten(tmp_path: Path) -> None:
    """A broker without its disk counts anew: nobody takes another's unit off the queue."""
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path)))
    await server.start()
    async with serving(server) as served:
        leaving = asyncio.create_task(served.encode(["a"]))
        connection = await Connection.open(CommonSettings(broker_url=server.url), "test")
        await _until_queued(connection, 1)
        await server.stop()
        shutil.rmtree(tmp_path / "jetstream")
        await server.start()
        await until(lambda: not served.app.gateway.missing()[1:])
        await until(lambda: connection.connected)
        other = asyncio.create_task(served.encode(["b"]))
        await _until_queued(connection, 1)
        leaving.cancel()
        await until(lambda: served.app.gateway.inflight.requests == 1)
        await connection.flush()
        assert await _queued(connection) == 1
        other.cancel()
        await _until_queued(connection, 0)
        await connection.close()
    await server.stop()


async def test_a_window_of_units_is_on_the_queue(gateway: Served, worker: ScriptedWorker) -> None:
    await costly(gateway, worker, 0.1)
    held = Held(worker)
    waiting = asyncio.create_task(gateway.encode(["a"] * 4))
    await until(lambda: len(held.units) == 2)
    held.send(1)
    await until(lambda: len(held.units) == 3)
    held.send(0)
    await until(lambda: len(held.units) == 4)
    held.send(2)
    held.send(3)
    assert (await waiting).status_code == 200


async def test_too_much_queued_is_429_before_any_work(
    broker: BrokerServer, worker: ScriptedWorker
) -> None:
    async with serving(broker, max_queue_s=5.0) as served:
        await costly(served, worker, 1.0)
        held = Held(worker)
        inflight = served.app.gateway.inflight
        waiting = [asyncio.create_task(served.encode(["a"])) for _ in range(4)]
        await until(lambda: inflight.units == 4 and len(held.units) == 2)
        refused = await served.encode(["a"] * 3)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "overloaded"
        assert refused.headers["retry-after"] == "2"
        assert "x-should-retry" not in refused.headers
        assert inflight.units == 4
        for number in range(4):
            await held.come(number + 1)
            held.send(number)
        assert [(await answer).status_code for answer in waiting] == [200] * 4


async def test_a_model_that_cannot_be_loaded_is_502_with_the_reason(
    gateway: Served, worker: ScriptedWorker
) -> None:
    Held(worker)
    waiting = asyncio.create_task(gateway.encode(["a"]))
    await until(lambda: worker.units)
    worker.state = ModelPulse(
        "failed", 0, 0.0, 0.0, reason="model.safetensors is cut short", again_s=60.0
    )
    worker.pulse()
    response = await waiting
    assert response.status_code == 502
    assert "model.safetensors is cut short" in response.json()["error"]["message"]
    assert response.json()["error"]["retryable"] is False
    assert 50 < int(response.headers["retry-after"]) <= 60
    assert response.headers["x-should-retry"] == "false"
    assert "it is not tried again for" in response.json()["error"]["message"]
    assert (await gateway.encode(["a"])).status_code == 502
    assert len(worker.units) == 1
    worker.reset()
    worker.pulse()
    fleet, catalog = gateway.app.gateway.fleet, gateway.app.gateway.catalog
    await until(lambda: fleet.rate(catalog.card(MODEL)).failed is None)
    assert (await gateway.encode(["a"])).status_code == 200


async def test_waiting_work_is_announced_at_once(gateway: Served, worker: ScriptedWorker) -> None:
    held = Held(worker)
    waiting = asyncio.create_task(gateway.encode(["a"]))
    await until(lambda: any(p.outstanding_s.get(MODEL, 0) > 0 for p in worker.gateway_pulses), 0.9)
    await until(lambda: held.units)
    held.send(0)
    await waiting
    worker.gateway_pulses.clear()
    await until(lambda: any(p.outstanding_s == {} for p in worker.gateway_pulses))


async def test_two_gateways_share_a_worker_and_never_an_answer(
    gateway: Served, broker: BrokerServer, worker: ScriptedWorker
) -> None:
    async with serving(broker) as second:
        texts = ["x" * n for n in range(40)]
        calls = [(gateway, second)[n % 2].encode([text]) for n, text in enumerate(texts)]
        answers = await asyncio.gather(*calls)
    lengths = [answer.json()["items"][0]["dense"][0] - 2 for answer in answers]
    assert lengths == [float(len(text)) for text in texts]
    assert len({unit.reply_to for unit in worker.units}) == 2


async def test_a_full_stream_is_429(tmp_path: Path) -> None:
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path)))
    await server.start()
    async with serving(server) as served:
        connection = await Connection.open(CommonSettings(broker_url=server.url), "test")
        info: dict[str, Any] = await connection.api("STREAM.INFO.shoal-work", {}, dict[str, Any])
        changed = {**info["config"], "max_msgs_per_subject": 1}
        await connection.api("STREAM.UPDATE.shoal-work", changed, dict[str, Any])
        ahead = asyncio.create_task(served.encode(["a"], headers={"x-request-timeout": "2"}))
        await until(lambda: served.app.gateway.inflight.units)
        subject = subjects.work_subject("work", "default", MODEL)
        last = {"last_by_subj": subject}
        await _stored(connection, last)
        refused = await served.encode(["a"], headers={"x-request-timeout": "2"})
        assert refused.status_code == 429
        assert "retry-after" in refused.headers
        assert (await ahead).status_code == 504
        await connection.close()
    await server.stop()


async def _stored(connection: Connection, what: dict[str, Any]) -> None:
    for _ in range(3000):
        found = await connection.api("STREAM.MSG.GET.shoal-work", what, dict[str, Any])
        if "message" in found:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was stored")


async def test_a_broker_that_restarts_loses_nothing(tmp_path: Path) -> None:
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path)))
    await server.start()
    settings = CommonSettings(broker_url=server.url)
    async with ScriptedWorker(settings, MODEL) as worker, serving(server) as served:
        await until(lambda: not served.app.gateway.missing())
        held = Held(worker)
        await costly(served, worker, 0.1)
        before = asyncio.create_task(served.encode(["a"] * 3))
        await until(lambda: len(held.units) == 2)
        await server.stop()
        await until(lambda: "the broker is not reachable" in served.app.gateway.missing())
        refused = await served.encode(["b"])
        assert refused.status_code == 503
        assert refused.json()["error"]["retryable"] is True
        assert "retry-after" in refused.headers
        worker.answer = embed
        await server.start()
        await until(lambda: worker.connection.connected)
        held.send(0)
        held.send(1)
        assert (await before).status_code == 200
        assert (await served.encode(["after"])).status_code == 200
    await server.stop()


async def test_units_that_found_no_broker_are_sent_after_it_is_back(tmp_path: Path) -> None:
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path)))
    await server.start()
    async with (
        ScriptedWorker(CommonSettings(broker_url=server.url), MODEL) as worker,
        serving(server) as served,
    ):
        await until(lambda: not served.app.gateway.missing())
        inflight = served.app.gateway.inflight
        held = Held(worker)
        await costly(served, worker, 0.1)
        waiting = asyncio.create_task(served.encode(["a"] * 3))
        await until(lambda: len(held.units) == 2)
        unit, ack = held.units[0]
        await server.stop()
        await until(lambda: "the broker is not reachable" in served.app.gateway.missing())
        # The answer was on its way when the broker went: its successor finds nobody to take it.
        inflight.on_reply(encode(embed(unit, ack)), "", None, unit.reply_to)
        worker.answer = embed
        await server.start()
        response = await waiting
        assert response.status_code == 200
        assert len({u.id for u in worker.units}) == 3
    await server.stop()


async def test_many_at_once_are_all_answered_rightly(
    gateway: Served, worker: ScriptedWorker
) -> None:
    texts = ["x" * (n % 50) for n in range(300)]
    answers = await asyncio.gather(*(gateway.encode([text]) for text in texts))
    assert [msgspec.json.decode(a.content)["items"][0]["dense"][0] - 2 for a in answers] == [
        float(len(text)) for text in texts
    ]
    assert gateway.app.gateway.inflight.units == 0


async def test_a_broker_that_lost_its_disk_gets_its_streams_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    server = BrokerServer(CommonSettings(store_dir=str(store)))
    await server.start()
    async with serving(server) as served:
        await server.stop()
        shutil.rmtree(store)
        await server.start()
        connection = await Connection.open(CommonSettings(broker_url=server.url), "test")
        for _ in range(3000):
            found = await connection.api("STREAM.INFO.shoal-work", {}, dict[str, Any])
            if "config" in found:
                break
            await asyncio.sleep(0.01)
        assert found["config"]["name"] == "shoal-work"
        assert served.app.gateway.missing() != []
        await connection.close()
    await server.stop()

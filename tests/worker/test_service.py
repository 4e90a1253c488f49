"""A whole worker on a real broker with a real runtime process."""

import asyncio
import os
import signal
from typing import cast

import httpx
import numpy as np
import pytest

from shoal.broker.connection import Connection
from shoal.broker.server import BrokerServer
from shoal.broker.streams import ensure_streams
from shoal.core import events as ev
from shoal.errors import ConfigError, InvalidRequest, Unavailable
from shoal.runtimes.fake import hashing
from shoal.settings import WorkerSettings
from shoal.values import EncodeParams
from shoal.wire.arrays import from_wire
from shoal.worker.prepared import Preparer
from shoal.worker.service import Worker

from .conftest import StartWorker
from .scripted import ScriptedGateway, until


def expected(text: str, dim: int = 8) -> np.ndarray:
    seed = hashing.seed_of("fake", "dense")
    (vector,) = hashing.vectors_of(*hashing.pack_texts([text]), dim, seed)
    return np.asarray(vector, np.float32)


def runtime_pid(worker: Worker) -> int:
    (process,) = worker._lanes._processes.values()
    return process.pid


async def settled(worker: Worker) -> None:
    await until(lambda: len(worker.core.units) == 0)


async def test_answers_every_item_with_its_own_vector(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    worker = await start_worker()
    unit = await gateway.publish(["fish", "bird", "a longer text"])
    reply = await gateway.reply(unit)
    rows = from_wire(reply.outputs["dense"])
    for row, text in zip(rows, ["fish", "bird", "a longer text"], strict=True):
        assert np.allclose(row, expected(text), atol=1e-6)
    assert reply.worker == worker.id
    assert reply.timings.delivery == 1
    await settled(worker)


async def test_params_of_one_unit_do_not_touch_another_in_the_same_batch(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    await start_worker({"base_s": 0.05})
    plain = await gateway.publish(["first"])  # keeps the lane busy while the others gather
    cut = await gateway.publish(["fish"], params=EncodeParams(dimensions=4))
    half = await gateway.publish(["fish"], params=EncodeParams(dtype="float16"))
    await gateway.reply(plain)
    four = from_wire((await gateway.reply(cut)).outputs["dense"])
    assert four.shape == (1, 4)
    assert np.isclose(np.linalg.norm(four), 1, atol=1e-5)
    assert from_wire((await gateway.reply(half)).outputs["dense"]).dtype == np.float16


async def test_bad_items_fail_alone(start_worker: StartWorker, gateway: ScriptedGateway) -> None:
    await start_worker({"nan": "poison", "fail": "broken"})
    unit = await gateway.publish(["a", "poison pill", {"txt": 1}, "broken one", [1, 2], "f"])
    reply = await gateway.reply(unit)
    codes = {index: error.code for index, error in reply.errors.items()}
    assert codes == {
        1: "model_output_invalid",
        2: "invalid_item",
        3: "compute_failed",
        4: "invalid_item",
    }
    rows = from_wire(reply.outputs["dense"])
    assert np.allclose(rows, [expected("a"), expected("f")], atol=1e-6)


async def test_out_of_memory_halves_until_it_fits(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    await start_worker({"max_items": 3})
    texts = [f"text {i}" for i in range(16)]
    reply = await gateway.reply(await gateway.publish(list(texts)))
    assert not reply.errors
    rows = from_wire(reply.outputs["dense"])
    assert all(np.allclose(r, expected(t), atol=1e-6) for r, t in zip(rows, texts, strict=True))


async def test_a_killed_runtime_comes_back_and_answers(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    worker = await start_worker({"base_s": 0.2})
    unit = await gateway.publish(["fish"])
    await until(lambda: bool(worker.core.lanes["cpu"].batches))
    os.kill(runtime_pid(worker), signal.SIGKILL)
    reply = await gateway.reply(unit)
    assert np.allclose(from_wire(reply.outputs["dense"])[0], expected("fish"), atol=1e-6)


async def test_an_item_that_kills_its_runtime_is_dead_lettered_and_others_are_answered(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    await start_worker({"crash": "bomb", "base_s": 0.02})
    good = [await gateway.publish([f"good {i}"]) for i in range(3)]
    bomb = await gateway.publish(["before", "bomb", "after"])
    good += [await gateway.publish([f"more {i}"]) for i in range(3)]
    reply = await gateway.reply(bomb)
    assert [error.code for error in reply.errors.values()] == ["dead_lettered"]
    assert "3 times" in reply.errors[1].message
    assert np.allclose(from_wire(reply.outputs["dense"])[1], expected("after"), atol=1e-6)
    for unit in good:
        assert (await gateway.reply(unit)).error is None


async def test_a_reply_that_is_not_acked_is_sent_again_and_then_settled(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    worker = await start_worker()
    gateway.acks = False
    unit = await gateway.publish(["fish"])
    await gateway.reply(unit)
    gateway.acks = True
    await until(lambda: sum(r.unit == unit.id for r in gateway.replies) >= 2)
    await settled(worker)


async def test_a_reply_that_nobody_hears_ends_the_unit(
    start_worker: StartWorker, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.core.delivery.UNHEARD_LIMIT_S", 0.6)
    worker = await start_worker()
    gateway.go_away()
    await gateway.publish(["fish"])
    await until(lambda: len(worker.core.units) == 1)
    await settled(worker)
    text = worker.metrics.render()[0].decode()
    assert 'shoal_worker_units_total{model="fake",outcome="unheard"} 1.0' in text


async def test_cancelled_units_cost_no_device_time(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    worker = await start_worker({"base_s": 0.3})
    busy = await gateway.publish(["busy"])
    await until(lambda: bool(worker.core.lanes["cpu"].batches))
    gone = await gateway.publish(["gone"])
    gateway.cancel(gone)
    await gateway.reply(busy)
    await settled(worker)
    assert not any(r.unit == gone.id for r in gateway.replies)


async def test_a_stopped_worker_s_units_go_to_another(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    first = await start_worker({"base_s": 0.4})
    units = [await gateway.publish([f"text {i}"]) for i in range(3)]
    await until(lambda: bool(first.core.lanes["cpu"].batches))
    await start_worker({"base_s": 0.0})
    await first.drain()
    for unit in units:
        assert (await gateway.reply(unit)).error is None
    assert len(first.core.units) == 0


async def test_a_reply_over_the_message_limit_comes_in_parts(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    dim = 8192
    await start_worker(dim=dim)
    texts = [f"text {i}" for i in range(400)]  # 13 MB of float32
    reply = await gateway.reply(await gateway.publish(list(texts)))
    assert len(gateway.parts) > 1
    rows = from_wire(reply.outputs["dense"])
    assert rows.shape == (400, dim)
    assert np.allclose(rows[399], expected("text 399", dim), atol=1e-6)


async def test_garbage_on_the_queue_is_removed_and_the_next_unit_answered(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    await start_worker()
    for number, data in enumerate([b"", b"\xc1", b"\x93\x01", b"x" * 1000]):
        await gateway.put(data, f"garbage{number}")
    assert (await gateway.reply(await gateway.publish(["fish"]))).error is None


async def test_loads_on_demand_and_says_why_it_cannot(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    worker = await start_worker({"load_error": "no such weights"}, models=[])

    def told() -> bool:
        gateway.demand("fake")  # again and again, as gateways do: the worker may not listen yet
        if worker.id not in gateway.pulses:
            return False
        said = gateway.pulses[worker.id].models.get("fake")
        return said is not None and said.state == "failed"

    await until(told)
    pulse = gateway.pulses[worker.id].models["fake"]
    assert pulse.reason is not None
    assert "no such weights" in pulse.reason
    assert worker._lanes.preparers == {}


async def test_a_broker_restart_loses_nothing(
    start_worker: StartWorker, gateway: ScriptedGateway, broker: BrokerServer
) -> None:
    worker = await start_worker({"base_s": 0.1})
    units = [await gateway.publish([f"text {i}"]) for i in range(5)]
    await until(lambda: bool(worker.core.lanes["cpu"].batches))
    os.kill(broker.pid or 0, signal.SIGKILL)
    await broker.wait()
    await broker.start()
    for unit in units:
        assert (await gateway.reply(unit)).error is None


async def test_a_broker_that_is_away_holds_up_no_load(
    start_worker: StartWorker, broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that waited for it would be taken for hung."""
    monkeypatch.setattr("shoal.worker.service.PLACE_S", 0.2)
    worker = await start_worker()
    os.kill(broker.pid or 0, signal.SIGKILL)
    await broker.wait()
    loads = worker.core.lanes["cpu"]
    os.kill(runtime_pid(worker), signal.SIGKILL)
    await until(lambda: not loads.resident)
    await until(lambda: bool(loads.resident))
    await broker.start()


class Refusing:
    slow = False
    probe = "ready"

    def prepare(self, items: list[str], params: EncodeParams, query: None = None) -> None:
        raise InvalidRequest("it does no such task")


async def test_a_probe_that_asks_for_what_no_model_does_ends_no_worker(
    start_worker: StartWorker,
) -> None:
    worker = await start_worker()
    worker._lanes.preparers["fake"] = cast(Preparer, Refusing())
    assert worker._report is not None
    said: list[str] = []
    for _ in range(20):  # the worker's own first probe may still be under way, and tell of its pass
        worker._lanes._hearing.computed_at.clear()
        said = said or await worker._report.missing()
    assert said == ["lane cpu: it does no such task"]


async def test_health_rests_on_a_forward_pass(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    worker = await start_worker()
    async with httpx.AsyncClient(base_url=worker.health_url, timeout=10) as client:
        assert (await client.get("/healthz")).status_code == 200

        async def ready() -> bool:
            return (await client.get("/readyz")).status_code == 200

        while not await ready():
            await asyncio.sleep(0.01)
        os.kill(runtime_pid(worker), signal.SIGSTOP)
        worker._lanes._hearing.computed_at.clear()
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert "forward pass" in answer.text
        os.kill(runtime_pid(worker), signal.SIGCONT)
        assert await ready()
        assert "shoal_worker_units_held" in (await client.get("/metrics")).text
        assert (await client.get("/nope")).status_code == 404


@pytest.mark.parametrize("url", ["foo", "/dir", "file://relative/dir", "s3://", "ftp://host/dir"])
def test_a_store_that_is_none_is_told_before_anything_starts(url: str) -> None:
    with pytest.raises(ConfigError, match="payload_url"):
        Worker(WorkerSettings(payload_url=url))


async def test_a_worker_that_loses_its_broker_while_it_starts_ends_in_good_order(
    broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the connection and the parts that need it."""

    async def lost(connection: Connection) -> None:
        await broker.stop()
        await until(lambda: not connection.connected)
        await ensure_streams(connection)

    monkeypatch.setattr("shoal.worker.service.ensure_streams", lost)
    worker = Worker(WorkerSettings(broker_url=broker.url))
    with pytest.raises(Unavailable):
        await worker.start()
    await worker.close()


async def test_a_core_that_failed_is_asked_no_more_and_the_worker_still_ends(
    start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await start_worker()
    runtime = runtime_pid(worker)

    def fails(event: ev.Event, now: float) -> list[ev.Instruction]:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(worker.core, "react", fails)
    with pytest.raises(RuntimeError, match="a mistake"):
        worker._loop.emit(ev.Ticked())
    await worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(runtime, 0)


async def test_who_leaves_says_so_even_if_it_has_nothing_to_give_back(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    worker = await start_worker()
    await until(lambda: worker.id in gateway.pulses)
    assert not gateway.pulses[worker.id].draining
    await worker.close()
    await until(lambda: gateway.pulses[worker.id].draining)


async def test_a_runtime_that_hangs_is_replaced(
    start_worker: StartWorker, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.core.lanes.HANG_S", 0.3)
    worker = await start_worker()
    stopped = runtime_pid(worker)
    os.kill(stopped, signal.SIGSTOP)
    unit = await gateway.publish(["fish"])
    reply = await gateway.reply(unit)
    assert np.allclose(from_wire(reply.outputs["dense"])[0], expected("fish"), atol=1e-6)
    assert runtime_pid(worker) != stopped

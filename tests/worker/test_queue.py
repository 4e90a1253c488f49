"""The consumers behind a worker's pulls: both classes, on a real broker."""

from __future__ import annotations

from typing import Any

from shoal.wire import subjects
from tests.worker.conftest import StartWorker
from tests.worker.scripted import MODEL, POOL, ScriptedGateway, until


async def test_a_model_has_a_consumer_on_each_stream(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    await start_worker()
    for klass in subjects.CLASSES:
        name = f"{subjects.stream(klass)}.{subjects.consumer(POOL, MODEL)}"
        info: dict[str, Any] = await gateway.connection.api(
            f"CONSUMER.INFO.{name}", {}, dict[str, Any]
        )
        assert info["config"]["filter_subject"] == subjects.work_subject(klass, POOL, MODEL)


async def test_a_bulk_unit_is_answered_on_an_idle_worker(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    await start_worker()
    unit = await gateway.publish(["a"], klass="bulk")
    gateway.demand(MODEL, 0.0, bulk_s=1.0)
    await until(lambda: any(reply.unit == unit.id for reply in gateway.replies))
    assert gateway.replies[0].error is None

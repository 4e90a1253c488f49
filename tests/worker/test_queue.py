"""The consumers behind a worker's pulls: both classes, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.wire import subjects
from shoal.worker import queue
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


async def test_a_broker_that_takes_no_more_consumers_fails_the_load_with_its_reason(
    start_worker: StartWorker, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "REFUSED_S", 0.1)
    stream = subjects.stream("work")
    api = gateway.connection.api
    info: dict[str, Any] = await api(f"STREAM.INFO.{stream}", {}, dict[str, Any])
    await api(f"STREAM.DELETE.{stream}", {}, dict[str, Any])
    await api(f"STREAM.CREATE.{stream}", info["config"] | {"max_consumers": 1}, dict[str, Any])
    other = {"durable_name": "other", "ack_policy": "explicit", "filter_subject": "shoal.work.x.y"}
    request = {"stream_name": stream, "config": other}
    await api(f"CONSUMER.CREATE.{stream}.other.shoal.work.x.y", request, dict[str, Any])
    worker = await start_worker()
    assert worker.core.models[MODEL].state == "failed"
    assert "maximum consumers limit" in (worker.core.models[MODEL].reason or "")

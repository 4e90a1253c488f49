from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.broker.server import BrokerServer
from shoal.broker.streams import ensure_streams
from shoal.gateway.routes import routes
from shoal.settings import CommonSettings
from tests.gateway.conftest import MODEL, Served, serving, until
from tests.gateway.scripted import DIM, ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_ready_says_what_is_missing(broker: BrokerServer, worker: ScriptedWorker) -> None:
    async with serving(broker, pool="nobody-works-here") as served:
        response = await served.http.get("/readyz")
        assert response.status_code == 503
        assert response.json()["missing"] == [
            "no worker of pool 'nobody-works-here' was heard lately"
        ]
        assert (await served.http.get("/healthz")).status_code == 200


async def test_a_request_without_a_worker_waits_for_one_and_is_refused_once_none_came(
    broker: BrokerServer,
) -> None:
    pool = "comes-late"
    async with serving(broker, pool=pool, worker_wait_s=1.0) as served:
        waiting = asyncio.create_task(served.encode(["a"]))
        await until(lambda: served.app.gateway.inflight.requests == 1)
        soon = {"X-Request-Timeout": "0.2"}
        while (answer := await served.encode(["b"], headers=soon)).status_code == 504:
            pass  # within the second it waits for a worker, and no longer than its deadline
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        error = answer.json()["error"]
        assert (error["code"], error["retryable"]) == ("unavailable", True)
        assert "no worker has been there for 1 s" in error["message"]
        settings = CommonSettings(broker_url=broker.url, pool=pool)
        async with ScriptedWorker(settings, MODEL):
            await until(lambda: served.app.gateway.fleet.working)
            assert (await served.encode(["c"])).status_code == 200
            assert (await waiting).status_code == 200, "it was taken in, and waited"


async def test_a_worker_that_is_not_ready_does_not_make_the_gateway_ready(
    gateway: Served, worker: ScriptedWorker
) -> None:
    worker.ready = False
    worker.pulse()
    await until(gateway.app.gateway.missing)
    assert "ready" in (await gateway.http.get("/readyz")).json()["missing"][0]
    worker.ready = True
    worker.pulse()
    await until(lambda: not gateway.app.gateway.missing())
    assert (await gateway.http.get("/readyz")).json() == {
        "ready": True,
        "missing": [],
        "workers": 1,
    }


async def test_requests_are_counted_by_route_and_status(gateway: Served) -> None:
    name = 'shoal_gateway_requests_total{route="/v1/encode/{model}",status="200"}'
    before = await gateway.metric(name)
    await gateway.encode(["a", "b"])
    assert await gateway.metric(name) == before + 1
    assert await gateway.metric(f'shoal_gateway_items_total{{model="{MODEL}"}}') >= 2
    assert await gateway.metric("shoal_gateway_broker_connected") == 1


async def test_the_index_points_on(gateway: Served) -> None:
    body = (await gateway.http.get("/")).json()
    for path in (body["openapi"], body["models"], *body["health"]):
        assert (await gateway.http.get(path)).status_code == 200
    for path in (*body["openai"], *body["cohere"]):
        assert (await gateway.http.get(path)).status_code == 405  # there, and asked by POST
    listed = {
        path for said in body.values() for path in (said if isinstance(said, list) else [said])
    }
    there = {route.path for route in routes(gateway.app.gateway) if route.path.startswith("/v")}
    assert there == {path for path in listed if path.startswith("/v")} | {"/v1/models/{model}"}


async def test_models_have_openais_shape_and_more(gateway: Served) -> None:
    body = (await gateway.http.get("/v1/models")).json()
    assert body["object"] == "list"
    one = (await gateway.http.get(f"/v1/models/{MODEL}")).json()
    assert one in body["data"]
    every = (await gateway.http.get("/v1/models/every-vector")).json()
    assert every["outputs"] == ["dense", "sparse", "multivector", "fde"]
    assert (one["id"], one["object"], one["owned_by"]) == (MODEL, "model", "shoal")
    assert (one["tasks"], one["max_tokens"], one["dims"]) == (["encode"], 256, {"encode": DIM})
    assert (one["state"], one["prompts"]) == ("resident", ["query", "passage"])


async def test_a_broker_that_takes_no_units_is_told_by_readyz_and_at_the_deadline(
    tmp_path: Path,
) -> None:
    own = BrokerServer(CommonSettings(store_dir=str(tmp_path)))
    await own.start()
    try:
        settings = CommonSettings(broker_url=own.url)
        async with ScriptedWorker(settings, MODEL) as worker, serving(own) as served:
            await until(lambda: not served.app.gateway.missing())
            assert (await served.encode(["a"])).status_code == 200
            await worker.connection.api("STREAM.DELETE.shoal-work", {}, dict[str, Any])
            late = await served.encode(["a"], headers={"X-Request-Timeout": "0.3"})
            assert late.status_code == 504
            assert "did not take" in late.json()["error"]["message"]
            (missing,) = (await served.http.get("/readyz")).json()["missing"]
            assert "did not take" in missing
            await ensure_streams(worker.connection)
            # Nobody pulls from the new stream; that it takes units is enough to be ready.
            await served.encode(["a"], headers={"X-Request-Timeout": "0.3"})
            assert served.app.gateway.missing() == []
    finally:
        await own.stop()

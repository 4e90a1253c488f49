"""What all routes share: ids, keys, origins, limits and the shapes of errors."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from shoal.broker.server import BrokerServer
from shoal.runtimes.process import rss_bytes
from tests.gateway.conftest import MODEL, Served, serving, until
from tests.gateway.scripted import ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENCODE = f"/v1/encode/{MODEL}"


async def test_an_unknown_path_is_404_with_the_nearest(gateway: Served) -> None:
    response = await gateway.http.get("/v1/embedings")
    assert response.status_code == 404
    assert "/v1/embeddings" in response.json()["error"]["message"]


async def test_a_wrong_method_is_405_with_allow(gateway: Served) -> None:
    native = await gateway.http.get(ENCODE)
    assert (native.status_code, native.headers["allow"]) == (405, "POST")
    assert native.json()["error"]["code"] == "method_not_allowed"
    compat = await gateway.http.delete("/v1/models")
    assert (compat.status_code, compat.headers["allow"]) == (405, "GET, HEAD")
    assert compat.json()["error"]["type"] == "invalid_request_error"


async def test_head_is_get_without_a_body(gateway: Served) -> None:
    response = await gateway.http.head("/healthz")
    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("path", [ENCODE, "/v1/embeddings"])
async def test_other_types_and_codings_are_415(gateway: Served, path: str) -> None:
    form = await gateway.http.post(path, data={"items": "a"})
    assert form.status_code == 415
    assert "application/json" in form.json()["error"]["message"]
    packed = gzip.compress(b'{"items": ["a"]}')
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    zipped = await gateway.http.post(path, content=packed, headers=headers)
    assert zipped.status_code == 415


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"a"', b"\xff", b"[" * 100_000])
async def test_a_malformed_body_is_400(gateway: Served, body: bytes) -> None:
    for path in (ENCODE, "/v1/embeddings"):
        for type_ in ("application/json", "application/json; charset=utf-8"):
            response = await gateway.http.post(path, content=body, headers={"content-type": type_})
            assert response.status_code == 400, response.text


async def test_a_body_over_the_limit_is_413_and_the_connection_survives(
    broker: BrokerServer, worker: ScriptedWorker
) -> None:
    async with serving(broker, max_body_bytes=100_000) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.split(":")[-1]))
        head = f"POST {ENCODE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: 300000\r\n\r\n".encode() + b"x" * 300_000)
        status, body = await _answer(reader)
        assert status == 413
        assert b"100000 bytes" in body
        writer.write(f"{head}content-length: 15\r\n\r\n".encode() + b'{"items":["a"]}')
        assert (await _answer(reader))[0] == 200
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for _ in range(30):
            writer.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        writer.write(b"0\r\n\r\n")
        assert (await _answer(reader))[0] == 413
        writer.write(f"{head}content-length: 15\r\n\r\n".encode() + b'{"items":["a"]}')
        assert (await _answer(reader))[0] == 200
        writer.close()
        await writer.wait_closed()


async def test_a_body_not_worth_reading_ends_the_connection(broker: BrokerServer) -> None:
    async with serving(broker, max_body_bytes=1024) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.split(":")[-1]))
        writer.write(
            f"POST {ENCODE} HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n".encode()
        )
        assert (await _answer(reader))[0] == 413
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_bodies_of_all_requests_together_are_bounded(
    broker: BrokerServer, worker: ScriptedWorker
) -> None:
    async with serving(broker, max_bodies_bytes=100_000) as served:
        port = int(served.url.split(":")[-1])
        head = f"POST {ENCODE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        slow, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}content-length: 90015\r\n\r\n".encode() + b" " * 90_000)
        await until(lambda: served.app.gateway.bodies.held_bytes == 90_000)
        refused = await served.encode(["x" * 20_000])
        assert refused.status_code == 429
        assert "max_bodies_bytes" in refused.json()["error"]["message"]
        writer.write(b'{"items":["a"]}')
        assert (await _answer(slow))[0] == 200
        assert (await served.encode(["x" * 20_000])).status_code == 200
        await until(lambda: served.app.gateway.bodies.held_bytes == 0)
        writer.close()
        await writer.wait_closed()


async def test_a_body_that_is_only_announced_takes_no_memory(gateway: Served) -> None:
    port, before = int(gateway.url.split(":")[-1]), rss_bytes()
    head = f"POST {ENCODE} HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\n ".encode()
    bodies, writers = gateway.app.gateway.bodies, []
    for _ in range(10):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        writers.append(writer)
    await until(lambda: bodies.held_bytes == len(writers))
    assert rss_bytes() - before < 100_000_000
    for writer in writers:
        writer.close()
        await writer.wait_closed()
    await until(lambda: bodies.held_bytes == 0)


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    size = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(size)


async def test_limits_on_items_are_named(broker: BrokerServer, worker: ScriptedWorker) -> None:
    async with serving(broker, max_items=3, max_item_bytes=20) as served:
        many = await served.encode(["a"] * 4)
        assert many.status_code == 413
        assert "may have 3" in many.json()["error"]["message"]
        long = await served.encode(["a", "x" * 30])
        assert long.status_code == 413
        assert long.json()["error"]["param"] == "items[1]"


async def test_the_key_is_asked_for(broker: BrokerServer, worker: ScriptedWorker) -> None:
    async with serving(broker, api_key="sésame") as served:
        await until(lambda: not served.app.gateway.missing())
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await served.http.get(path)).status_code == 200
        without = await served.encode(["a"])
        assert without.status_code == 401
        assert without.headers["www-authenticate"] == "Bearer"
        wrong = await served.encode(["a"], headers={"authorization": "Bearer sesame"})
        assert wrong.json()["error"]["code"] == "unauthorized"
        compat = await served.http.get("/v1/models")
        assert compat.json()["error"]["type"] == "authentication_error"
        key = "Bearer sésame".encode()
        assert (await served.encode(["a"], headers={b"authorization": key})).status_code == 200


async def test_browsers_of_named_origins_may_call(
    broker: BrokerServer, worker: ScriptedWorker
) -> None:
    async with serving(broker, cors_origins=["https://app.example"], api_key="k") as served:
        asks = {
            "origin": "https://app.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, content-type",
        }
        preflight = await served.http.options(ENCODE, headers=asks)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        assert preflight.headers["access-control-allow-methods"] == "POST"
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        headers = {"origin": "https://app.example", "authorization": "Bearer k"}
        response = await served.encode(["a"], headers=headers)
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        assert "x-request-id" in response.headers["access-control-expose-headers"]
        refused = await served.encode(["a"], headers={"origin": "https://app.example"})
        assert refused.headers["access-control-allow-origin"] == "https://app.example"
        stranger = await served.encode(["a"], headers={**headers, "origin": "https://evil.example"})
        assert "access-control-allow-origin" not in stranger.headers


async def test_any_origin(broker: BrokerServer) -> None:
    async with serving(broker, cors_origins=["*"]) as served:
        response = await served.http.get("/healthz", headers={"origin": "https://a.example"})
        assert response.headers["access-control-allow-origin"] == "*"


async def test_a_sane_request_id_is_echoed(gateway: Served) -> None:
    echoed = await gateway.encode(["a"], headers={"x-request-id": "job-7/row.3"})
    assert echoed.headers["x-request-id"] == "job-7/row.3"
    made = await gateway.encode(["a"], headers={"x-request-id": "a b\tc"})
    assert made.headers["x-request-id"] not in ("", "a b\tc")
    assert (await gateway.http.get("/nowhere")).headers["x-request-id"]


async def test_the_time_of_each_hop_is_said(gateway: Served) -> None:
    timing = (await gateway.encode(["a"])).headers["server-timing"]
    hops = dict(part.strip().split(";dur=") for part in timing.split(","))
    assert (hops["queue"], hops["prepare"]) == ("1.00", "2.00")
    assert (hops["wait"], hops["compute"]) == ("3.00", "4.00")
    assert float(hops["total"]) > 0


async def test_the_callers_trace_goes_on(gateway: Served, worker: ScriptedWorker) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    await gateway.encode(["a"], headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    carried = worker.units[0].trace
    assert carried is not None
    assert carried.split("-")[1] == trace
    assert "b7ad6b7169203331" not in carried


@pytest.mark.parametrize(
    "asked", ["0", "-1", "soon", "nan", "inf", "1_0", "１０".encode(), "0x1", "1e999"]
)
async def test_a_senseless_timeout_is_400(gateway: Served, asked: str | bytes) -> None:
    response = await gateway.encode(["a"], headers={"x-request-timeout": asked})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "X-Request-Timeout"


async def test_timeouts_are_bounded(gateway: Served, worker: ScriptedWorker) -> None:
    await gateway.encode(["a"], headers={"x-request-timeout": "99999"})
    await gateway.encode(["a"], headers={"x-request-timeout": "2.5"})
    await gateway.encode(["a"])
    budgets = [unit.budget_s for unit in worker.units]
    assert 590 < budgets[0] <= 600
    assert 2.0 < budgets[1] <= 2.5
    assert 50 < budgets[2] <= 60


async def test_a_body_that_does_not_come_ends_at_its_deadline(gateway: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.split(":")[-1]))
    head = (
        f"POST {ENCODE} HTTP/1.1\r\nhost: x\r\nx-request-timeout: 0.2\r\ncontent-length: 15\r\n\r\n"
    )
    writer.write(head.encode() + b'{"items"')
    status, body = await _answer(reader)
    assert (status, await reader.read()) == (504, b"")
    assert b"did not arrive" in body
    writer.close()
    await writer.wait_closed()

"""Streams on a real socket: how they begin, go on and end, whatever becomes of worker and reader."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from shoal.broker.server import BrokerServer
from shoal.errors import ErrorInfo
from shoal.values import GenerateParams
from shoal.wire.queue import ModelPulse, Piece
from tests.gateway.conftest import Served, serving, until
from tests.gateway.scripted import ScriptedWorker
from tests.gateway.writing import Writing

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATH = "/v1/generate/storyteller"
BODY = {"items": ["Once"], "stream": True}
TOKENS = 'shoal_gateway_tokens_total{model="storyteller"}'


@contextlib.asynccontextmanager
async def streamed(
    served: Served, body: Any = BODY, path: str = PATH, **headers: str
) -> AsyncIterator[tuple[httpx.Response, AsyncIterator[str]]]:
    """A response that has begun, and its lines."""
    async with served.http.stream("POST", path, json=body, headers=headers) as response:
        yield response, response.aiter_lines()


async def events(lines: AsyncIterator[str]) -> list[Any]:
    """All data that comes, until the end."""
    return [json.loads(line[6:]) async for line in lines if line.startswith("data: {")]


async def data(lines: AsyncIterator[str]) -> Any:
    """The next event's."""
    async for line in lines:
        if line.startswith("data: "):
            return json.loads(line[6:])
    raise AssertionError("the stream ended")


async def test_pieces_come_as_they_are_written(gateway: Served, worker: ScriptedWorker) -> None:
    writing = Writing(worker)
    before = await gateway.metric(TOKENS)
    begun = asyncio.create_task(_begun(gateway))
    unit = await writing.come()
    assert isinstance(unit.params, GenerateParams)
    assert unit.params.stream
    writing.piece(" upon", 0)
    response, lines = await begun
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-request-id"]
    assert await data(lines) == {"model": "storyteller"}
    assert await data(lines) == {"item": 0, "text": " upon"}
    writing.piece(" a", 5)
    assert await data(lines) == {"item": 0, "text": " a"}
    writing.whole(" upon a time", new_tokens=3)
    last = await data(lines)
    assert last == {
        "item": 0,
        "text": " time",
        "finish": "stop",
        "prompt_tokens": 3,
        "new_tokens": 3,
        "tokens": 3,
        "truncated": False,
    }
    assert await data(lines) == {"usage": {"tokens": 3, "new_tokens": 3, "cached_tokens": 0}}
    assert [line async for line in lines if line] == []
    assert await gateway.metric(TOKENS) == before + 3 + 3
    await response.aclose()
    await until(lambda: worker.confirmed == [unit.id])


async def _begun(served: Served, body: Any = BODY) -> tuple[httpx.Response, AsyncIterator[str]]:
    request = served.http.build_request("POST", PATH, json=body)
    response = await served.http.send(request, stream=True)
    return response, response.aiter_lines()


async def test_a_stream_is_logged_and_counted_at_its_end(
    gateway: Served, worker: ScriptedWorker
) -> None:
    name = 'shoal_gateway_requests_total{route="/v1/generate/{model}",status="200"}'
    before = await gateway.metric(name)
    async with streamed(gateway) as (_, lines):
        await events(lines)
    assert await gateway.metric(name) == before + 1
    assert gateway.app.gateway.inflight.requests == 0


async def test_a_lost_piece_is_made_good_at_the_end(
    gateway: Served, worker: ScriptedWorker
) -> None:
    def answer(unit: Any, ack: str) -> None:
        writing(unit, ack)
        writing.piece("Once ", 0)
        writing.piece("a ", 10)
        writing.piece("time", 12)
        writing.whole("Once upon a time")

    writing = Writing(worker)
    worker.answer = answer
    async with streamed(gateway) as (_, lines):
        told = [event for event in await events(lines) if "item" in event]
    assert "".join(event["text"] for event in told) == "Once upon a time"


async def test_a_second_worker_s_pieces_are_the_same_text(
    gateway: Served, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)
    begun = asyncio.create_task(_begun(gateway))
    await writing.come()
    writing.piece("Once upon", 0, worker="first")
    response, lines = await begun
    writing.piece("Once", 0, worker="second")
    writing.piece(" upon a", 4, worker="second")
    writing.whole("Once upon a time", worker="second")
    told = [event for event in await events(lines) if "item" in event]
    assert "".join(event["text"] for event in told) == "Once upon a time"
    await response.aclose()


async def test_a_text_that_was_generated_as_another_ends_with_an_error(
    gateway: Served, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)
    begun = asyncio.create_task(_begun(gateway))
    await writing.come()
    writing.piece("Once upon", 0, worker="first")
    response, lines = await begun
    writing.piece("Twice", 0, worker="second")
    writing.whole("Twice told", worker="second")
    *told, last = await events(lines)
    assert [event["text"] for event in told if "text" in event] == ["Once upon"]
    assert last["error"]["code"] == "stream_broken"
    assert last["error"]["retryable"] is True
    await response.aclose()
    assert await gateway.metric('shoal_gateway_errors_total{code="stream_broken"}') == 1


async def test_pieces_of_a_call_that_does_not_stream_are_ignored(
    gateway: Served, worker: ScriptedWorker
) -> None:
    def answer(unit: Any, ack: str) -> None:
        writing(unit, ack)
        assert not unit.params.stream
        writing.piece("Twice", 0)
        writing.whole("Once upon a time")

    writing = Writing(worker)
    worker.answer = answer
    response = await gateway.post(PATH, {"items": ["Once"]})
    assert response.json()["items"][0]["text"] == "Once upon a time"


@pytest.mark.parametrize("item", [-1, 1, 2**40])
async def test_a_piece_of_no_item_is_counted_and_dropped(
    gateway: Served, worker: ScriptedWorker, item: int
) -> None:
    def answer(unit: Any, ack: str) -> None:
        writing(unit, ack)
        worker.send_piece(unit, Piece(unit.id, "w", item, 0, "x"))
        worker.send_piece(unit, Piece("nobody", "w", 0, 0, "x"))
        worker.send_piece(unit, Piece(f"{unit.request}.9", "w", 0, 0, "x"))
        writing.whole("Once")

    writing = Writing(worker)
    worker.answer = answer
    before = await gateway.metric('shoal_gateway_errors_total{code="protocol"}')
    async with streamed(gateway) as (_, lines):
        told = [event for event in await events(lines) if "item" in event]
    assert [event["text"] for event in told] == ["Once"]
    assert await gateway.metric('shoal_gateway_errors_total{code="protocol"}') == before + 1


# --- how it ends ----------------------------------------------------------------------------------


async def test_a_request_that_fails_before_anything_came_has_its_own_status(
    gateway: Served, worker: ScriptedWorker
) -> None:
    worker.state = ModelPulse("failed", 0, 0.0, 0.0, reason="no such file")
    worker.pulse()
    card = gateway.app.gateway.catalog.card("storyteller")
    await until(lambda: gateway.app.gateway.fleet.rate(card).failed is not None)
    response = await gateway.post(PATH, BODY)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "model_load_failed")
    worker.state = ModelPulse("resident", 1, 1e-6, 1e-5)
    worker.pulse()
    await until(lambda: gateway.app.gateway.fleet.rate(card).failed is None)


async def test_one_item_fails_and_the_others_go_on(gateway: Served, worker: ScriptedWorker) -> None:
    writing = Writing(worker)
    body = {"items": ["a", "b"], "stream": True}
    begun = asyncio.create_task(_begun(gateway, body))
    await writing.come(2)
    failed = next(n for n, (unit, _) in enumerate(writing.units) if unit.items == [b'"b"'])
    writing.fail(ErrorInfo("too_many_tokens", "300 tokens", 400), number=failed)
    response, lines = await begun
    writing.whole("fine", number=1 - failed)
    told = await events(lines)
    assert told[1]["item"] == 1
    assert told[1]["error"]["code"] == "too_many_tokens"
    assert told[1]["error"]["param"] == "items[1]"
    assert (told[2]["item"], told[2]["text"]) == (0, "fine")
    assert told[3] == {"usage": {"tokens": 3, "new_tokens": 2, "cached_tokens": 0}}
    await response.aclose()


async def test_the_deadline_holds_for_the_whole_stream(
    gateway: Served, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)
    request = gateway.http.build_request(
        "POST", PATH, json=BODY, headers={"x-request-timeout": "0.3"}
    )
    begun = asyncio.create_task(gateway.http.send(request, stream=True))
    unit = await writing.come()
    assert unit.budget_s <= 0.3
    writing.piece("Once", 0)
    response = await begun
    *_, last = await events(response.aiter_lines())
    assert last["error"]["code"] == "deadline_exceeded"
    await response.aclose()
    await until(lambda: unit.request in worker.cancelled)


async def test_texts_have_more_time_than_other_requests(
    gateway: Served, worker: ScriptedWorker
) -> None:
    async with streamed(gateway) as (_, lines):
        await events(lines)
    assert 290 < worker.units[0].budget_s <= 300


async def test_a_reader_that_goes_away_cancels_at_once(
    gateway: Served, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)
    begun = asyncio.create_task(_begun(gateway))
    unit = await writing.come()
    writing.piece("Once", 0)
    response, lines = await begun
    assert await data(lines) == {"model": "storyteller"}
    await response.aclose()
    await until(lambda: unit.request in worker.cancelled, 2.0)
    assert gateway.app.gateway.inflight.requests == 0
    assert gateway.app.gateway.bodies.held_bytes == 0


async def test_a_reader_that_goes_away_before_anything_came_cancels_too(
    gateway: Served, worker: ScriptedWorker
) -> None:
    writing = Writing(worker)
    begun = asyncio.create_task(_begun(gateway))
    unit = await writing.come()
    begun.cancel()
    await asyncio.wait([begun])
    await until(lambda: unit.request in worker.cancelled, 2.0)
    assert gateway.app.gateway.inflight.requests == 0


async def test_a_silent_stream_beats(broker: BrokerServer, worker: ScriptedWorker) -> None:
    writing = Writing(worker)
    async with serving(broker, stream_beat_s=0.05) as served:
        await until(lambda: not served.app.gateway.missing())
        async with streamed(served) as (response, lines):
            assert response.status_code == 200
            seen = [line async for line in _some(lines, 6) if line]
            assert seen[0] == 'data: {"model":"storyteller"}'
            assert set(seen[1:]) == {": still at it"}
            await writing.come()
            writing.whole("Once")
            assert (await data(lines))["text"] == "Once"


async def _some(lines: AsyncIterator[str], count: int) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        count -= 1
        if not count:
            return


async def test_a_slow_reader_is_bounded(broker: BrokerServer, worker: ScriptedWorker) -> None:
    """What it does not take fills the sockets, then the bound; then the unit is called off."""
    writing = Writing(worker)
    async with serving(broker, max_stream_bytes=256 * 1024) as served:
        await until(lambda: not served.app.gateway.missing())
        host, port = httpx.URL(served.url).host, httpx.URL(served.url).port
        content = msgspec.json.encode(BODY)
        head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
        with socket.create_connection((host, port)) as slow:
            slow.sendall(head.encode() + content)
            unit = await writing.come()
            text, at = "x" * 64 * 1024, 0
            while unit.request not in worker.cancelled:
                writing.piece(text, at)
                at += len(text)
                assert at < 64 << 20, "nothing bounded it"
                await worker.connection.flush()
                await asyncio.sleep(0.001)
            slow.settimeout(60)
            read = await asyncio.to_thread(_read_all, slow)
        assert b"reader_too_slow" in read[-1000:]
        assert b"max_stream_bytes" in read[-1000:]
        assert served.app.gateway.inflight.requests == 0


def _read_all(reader: socket.socket) -> bytes:
    """Until the stream's end."""
    read = b""
    while not read.endswith(b"0\r\n\r\n"):
        chunk = reader.recv(1 << 20)
        assert chunk, "the connection ended"
        read += chunk
    return read


async def test_a_reader_that_pauses_gets_all_in_fewer_events(
    gateway: Served, worker: ScriptedWorker
) -> None:
    def answer(unit: Any, ack: str) -> None:
        writing(unit, ack)
        for at in range(100):
            writing.piece("x", at)
        writing.whole("x" * 100)

    writing = Writing(worker)
    worker.answer = answer
    async with streamed(gateway) as (_, lines):
        told = [event for event in await events(lines) if "item" in event]
    assert "".join(event["text"] for event in told) == "x" * 100
    assert len(told) <= 101

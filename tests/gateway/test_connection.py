"""Bytes that no well-behaved client sends, on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from shoal.broker.server import BrokerServer
from shoal.errors import MAX_MESSAGE
from shoal.gateway.connection import MAX_HEAD_BYTES
from tests.gateway.conftest import ALIAS, MODEL, Served, serving, until
from tests.gateway.held import Held
from tests.gateway.scripted import ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")

BODY = b'{"items": ["a"]}'
HEAD = b"POST /v1/encode/%b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % (
    MODEL.encode(),
    len(BODY),
)
PLAIN = HEAD + b"Connection: close\r\n\r\n" + BODY


async def answer(gateway: Served, *pieces: bytes) -> bytes:
    """What comes back until the gateway closes the connection."""
    url = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


def error_of(response: bytes) -> tuple[int, str]:
    """Status and code of an answer in the one error shape."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head
    error = msgspec.json.decode(body)["error"]
    assert set(error) == {"code", "message", "retryable", "param"}
    return int(head.split()[1]), error["code"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_400_in_the_error_shape(
    gateway: Served, garbage: bytes
) -> None:
    assert error_of(await answer(gateway, garbage)) == (400, "invalid_request")


CHUNKED = (
    b"POST /v1/encode/%b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % MODEL.encode()
)


async def test_a_body_that_breaks_the_protocol_is_400_in_the_error_shape(gateway: Served) -> None:
    assert error_of(await answer(gateway, CHUNKED, b"ZZ\r\n{}")) == (400, "invalid_request")
    together = await answer(gateway, CHUNKED + b"2\r\n{}\r\nfffffffffffffffffff\r\n")
    assert error_of(together) == (400, "invalid_request")


async def test_a_broken_body_behind_a_request_under_way_gets_no_answer_before_it(
    gateway: Served, worker: ScriptedWorker
) -> None:
    """An answer to the second would be taken for one to the first."""
    Held(worker)
    whole = HEAD + b"\r\n" + BODY
    assert await answer(gateway, whole + CHUNKED, b"ZZ\r\n{}") == b""


@pytest.mark.parametrize(
    "endless",
    [
        b"GET /" + b"a" * 2**20,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 2**20,
        b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 2**17,
    ],
)
async def test_a_head_without_an_end_is_431(gateway: Served, endless: bytes) -> None:
    pieces = [endless[i : i + 32_768] for i in range(0, MAX_HEAD_BYTES + 1, 32_768)]
    assert error_of(await answer(gateway, *pieces)) == (431, "head_too_large")


@pytest.mark.parametrize("step", [10_000, 2**20])
async def test_a_path_that_is_too_long_is_431(gateway: Served, step: int) -> None:
    """However it arrives: the parser reads no path over 64 KiB."""
    head = b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    pieces = [head[i : i + step] for i in range(0, len(head), step)]
    assert error_of(await answer(gateway, *pieces)) == (431, "head_too_large")


async def test_a_head_that_does_not_come_is_408(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.gateway.connection.HEAD_S", 0.1)
    assert error_of(await answer(gateway, b"GET / HT")) == (408, "head_timeout")
    assert await answer(gateway) == b""


async def test_a_head_may_come_in_pieces(gateway: Served) -> None:
    response = await answer(gateway, *(PLAIN[i : i + 7] for i in range(0, len(PLAIN), 7)))
    assert response.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("cut", [0, 30, len(HEAD) + 60])
async def test_an_offer_of_another_protocol_is_ignored_and_the_body_read(
    gateway: Served, cut: int
) -> None:
    offer = (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    )
    whole = HEAD + offer + BODY + HEAD + offer + BODY + PLAIN
    response = await answer(gateway, whole[:cut], whole[cut:])
    assert response.count(b"HTTP/1.1 200 ") == 3


async def test_names_of_any_length_are_answered_shortly(gateway: Served) -> None:
    long = "abcdefghij" * 500_000
    calls = [
        gateway.http.post("/v1/embeddings", json={"model": long, "input": "a"}),
        gateway.http.post(
            "/v1/embeddings", json={"model": ALIAS, "input": "a", "encoding_format": long}
        ),
        gateway.http.post(f"/v1/encode/{MODEL}", json={"items": ["a"], long: 1}),
        gateway.encode(["a"], dtype=long),
        gateway.encode(["a"], outputs=[long]),
        gateway.encode(["a"], prompt=long),
        gateway.http.post(f"/v1/encode/{long[:50_000]}", json={"items": ["a"]}),
    ]
    for response in await asyncio.wait_for(asyncio.gather(*calls), 60):
        assert response.status_code in (400, 404)
        assert len(response.content) < 2 * MAX_MESSAGE


async def test_a_caller_that_does_not_read_its_answer_is_given_up(
    broker: BrokerServer, worker: ScriptedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.gateway.connection.STALL_S", 0.2)
    async with serving(broker, max_items=60_000) as served:
        connections = served.server.server_state.connections
        with socket.create_connection((served.http.base_url.host, served.http.base_url.port)) as c:
            await asyncio.to_thread(c.sendall, large_request())
            await until(lambda: connections)
            await until(lambda: not connections)


LARGE = {"items": ["a"] * 60_000}


def large_request() -> bytes:
    body = msgspec.json.encode(LARGE)
    return HEAD.replace(b"%d" % len(BODY), b"%d" % len(body)) + b"\r\n" + body


def connected(served: Served) -> socket.socket:
    """A socket whose own buffer hides little of what is not read."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((served.http.base_url.host, served.http.base_url.port))
    return made


async def test_a_caller_that_reads_too_slowly_is_given_up(
    broker: BrokerServer, worker: ScriptedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.gateway.connection.STALL_S", 0.2)
    async with serving(broker, max_items=60_000) as served:
        connections = served.server.server_state.connections
        with connected(served) as c:
            await asyncio.to_thread(c.sendall, large_request())
            await until(lambda: connections)
            while connections:  # ends in time, or the whole test does
                await asyncio.to_thread(c.recv, 1024)
                await asyncio.sleep(0.001)
            await until(lambda: served.app.gateway.unread.bytes == 0)


async def test_a_caller_that_reads_at_its_leisure_has_all_of_its_answer(
    broker: BrokerServer, worker: ScriptedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.gateway.connection.STALL_S", 0.2)
    monkeypatch.setattr("shoal.gateway.connection.LEAST_TAKEN_BYTES", 1000)
    async with serving(broker, max_items=60_000) as served:
        host, port = served.http.base_url.host, served.http.base_url.port
        with socket.create_connection((host, port), timeout=60) as c:
            await asyncio.to_thread(c.sendall, large_request())
            answer = bytearray()
            while not answer.endswith(b'"usage":{"tokens":180000}}'):
                answer += await asyncio.to_thread(c.recv, 1 << 16)
                await asyncio.sleep(0.005)  # a second in all: several looks at the reader
        assert answer.count(b'"dense"') == 60_000
        await until(lambda: served.app.gateway.unread.bytes == 0)


def _vectors_read(reader: socket.socket) -> int:
    """How many came before the connection ended."""
    answer = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while chunk := reader.recv(1 << 16):
            answer += chunk
    return answer.count(b'"dense"')


async def test_unread_answers_are_bounded_together_and_the_slowest_reader_ends(
    broker: BrokerServer, worker: ScriptedWorker
) -> None:
    async with serving(broker, max_items=60_000, max_unread_bytes=6_000_000) as served:
        connections = served.server.server_state.connections
        unread = served.app.gateway.unread
        with connected(served) as first, connected(served) as second:
            await asyncio.to_thread(first.sendall, large_request())
            await until(lambda: unread.bytes and len(connections) == 2)
            await asyncio.to_thread(second.sendall, large_request())
            await until(lambda: len(connections) == 1)
            assert 0 < unread.bytes <= 6_000_000
            assert await asyncio.to_thread(_vectors_read, first) < 60_000
            whole = await served.http.post(f"/v1/encode/{MODEL}", json={"items": ["a"]})
            assert whole.status_code == 200
        await until(lambda: unread.bytes == 0)


async def test_a_caller_that_goes_away_in_the_middle_leaves_nothing(gateway: Served) -> None:
    url = urlsplit(gateway.url)
    for cut in range(0, len(PLAIN), 9):
        _, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(PLAIN[:cut])
        writer.close()
    assert (await gateway.encode(["a"])).status_code == httpx.codes.OK

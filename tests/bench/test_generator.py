"""Both loops against a small server that answers as it is told."""

import asyncio
import math
import time
from functools import partial
from itertools import count

import pytest

from shoal.bench.generator import drive
from shoal.bench.load import Arrivals, Load, generator, post
from tests.bench import tcp
from tests.bench.scripted import http, serving


def load(port: int, bodies: list[bytes], connections: int = 1, **more: object) -> Load:
    requests = [post("/", body, "text/plain") for body in bodies]
    return Load([("127.0.0.1", port)], requests, connections, **more)  # type: ignore[arg-type]


def arrivals(ports: list[int], due_s: list[float], which: list[int], patience_s: float) -> Arrivals:
    requests = [post("/", body, "text/plain") for body in (b"0", b"1", b"2")]
    return Arrivals([("127.0.0.1", port) for port in ports], requests, due_s, which, patience_s)


async def test_every_request_is_sent_once_and_answers_keep_their_order() -> None:
    bodies = [b"%d" % n for n in range(50)]
    async with serving(lambda body: http(200, b"=" + body)) as port:
        outcome = await drive(load(port, bodies, connections=7, keep=True))
    assert outcome.bodies == [b"=" + body for body in bodies]
    assert (outcome.answered, outcome.errors) == (50, {})
    assert 0 < outcome.answered_ms(0.5) <= outcome.answered_ms(0.99)


async def test_chunked_answers_are_joined() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    async with serving(lambda _: chunked) as port:
        outcome = await drive(load(port, [b"x"], keep=True))
    assert outcome.bodies == [b"abc"]


async def test_other_statuses_are_errors_and_the_rest_goes_on() -> None:
    async with serving(lambda body: http(503 if body == b"1" else 200, b"")) as port:
        outcome = await drive(load(port, [b"0", b"1", b"2"], keep=True))
    assert (outcome.answered, outcome.errors) == (2, {"503": 1})


async def test_a_lost_connection_is_an_error() -> None:
    async with serving(lambda body: None if body == b"1" else http(200, b"")) as port:
        outcome = await drive(load(port, [b"0", b"1"], connections=2))
    assert (outcome.answered, outcome.errors) == (1, {"connection lost": 1})


async def test_what_is_not_http_is_an_error() -> None:
    async with serving(lambda _: b"nonsense\r\n\r\n") as port:
        outcome = await drive(load(port, [b"0"]))
    assert outcome.answered == 0
    assert [what.partition(":")[0] for what in outcome.errors] == ["not HTTP"]


async def test_for_a_time_requests_are_repeated() -> None:
    seen = count()

    def answer(_: bytes) -> bytes:
        next(seen)
        return http(200, b"")

    async with serving(answer) as port:
        outcome = await drive(load(port, [b"0", b"1"], connections=2, seconds=0.1))
    assert outcome.answered == next(seen) > 2
    assert outcome.seconds >= 0.1
    assert outcome.per_second == pytest.approx(outcome.answered / outcome.seconds)


async def test_requests_go_out_in_time_and_to_all_gateways() -> None:
    seen: list[list[bytes]] = [[], []]

    def noted(place: int, body: bytes) -> bytes:
        seen[place].append(body)
        return http(200, body)

    async with serving(partial(noted, 0)) as left, serving(partial(noted, 1)) as right:
        began = time.perf_counter()
        answered = await drive(arrivals([left, right], [0.0, 0.1, 0.2], [0, 1, 2], 60.0))
        took = time.perf_counter() - began
    assert seen == [[b"0", b"2"], [b"1"]]
    assert 0.2 <= took < 60.0  # the patience
    assert answered.errors == {} and None not in answered.latency_s


async def test_nobody_waits_for_an_answer_that_does_not_come() -> None:
    async with serving(lambda body: b"" if body == b"1" else http(200, body)) as port:
        answered = await drive(arrivals([port], [0.0] * 50, [1] + [0] * 49, 5.0))
    assert answered.latency_s[0] is None
    assert sum(latency is not None for latency in answered.latency_s) == 49
    assert answered.errors == {"no answer": 1}


async def test_refusals_and_broken_connections_are_told_apart() -> None:
    answers = {b"0": http(429, b""), b"1": None, b"2": http(200, b"")}
    async with serving(lambda body: answers[body]) as port:
        answered = await drive(arrivals([port], [0.0, 0.01, 0.02], [0, 1, 2], 60.0))
    assert answered.errors == {"429": 1, "connection lost": 1}
    assert [latency is None for latency in answered.latency_s] == [True, True, False]


async def test_connections_that_the_server_closes_are_no_longer_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.bench.generator._MOST_CONNECTIONS", 40)
    closing = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with serving(lambda _: closing) as port:
        due_s = [0.005 * number for number in range(100)]
        answered = await drive(arrivals([port], due_s, [0] * 100, 60.0))
    assert answered.errors == {}


async def test_latency_counts_from_when_a_request_was_due() -> None:
    def stalls(body: bytes) -> bytes:
        time.sleep(0.2)  # the generator with it: they share a loop here
        return http(200, body)

    async with serving(stalls) as port:
        answered = await drive(arrivals([port], [0.0, 0.05], [0, 0], 60.0))
    assert sum(latency or math.nan for latency in answered.latency_s) > 0.3


async def test_both_kinds_run_in_a_process_of_their_own() -> None:
    with generator() as helper:
        async with serving(lambda body: http(200, body)) as port:
            sent = load(port, [b"a", b"b"], keep=True)
            closed = await asyncio.to_thread(helper.ask, sent)
            asked = arrivals([port], [0.0, 0.01], [0, 1], 60.0)
            opened = await asyncio.to_thread(helper.ask, asked)
    assert closed.bodies == [b"a", b"b"]
    assert None not in opened.latency_s


async def test_the_connections_of_an_open_loop_take_turns() -> None:
    """Gateways that share a port each get some of them, however light the load."""
    seen: set[tuple[str, int]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(1)
            seen.add(writer.get_extra_info("peername"))
            writer.write(http(200, b""))

    async with tcp.serving(handle) as port:
        due_s = [0.005 * number for number in range(20)]
        await drive(arrivals([port], due_s, [0] * 20, 5.0))
    assert len(seen) == 20

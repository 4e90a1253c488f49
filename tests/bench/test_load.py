import asyncio
import math
from itertools import count

import pytest

from shoal.bench.load import Load, drive, generator, percentile, request
from tests.bench.scripted import http, serving


def load(port: int, bodies: list[bytes], connections: int = 1, **more: object) -> Load:
    requests = [request("h", "/", body, "text/plain", "*/*") for body in bodies]
    return Load("127.0.0.1", port, requests, connections, **more)  # type: ignore[arg-type]


async def test_every_request_is_sent_once_and_answers_keep_their_order() -> None:
    bodies = [b"%d" % n for n in range(50)]
    async with serving(lambda body: http(200, b"=" + body)) as port:
        outcome = await drive(load(port, bodies, connections=7, keep=True))
    assert outcome.bodies == [b"=" + body for body in bodies]
    assert (outcome.answered, outcome.errors) == (50, {})
    assert 0 < outcome.p50_ms <= outcome.p99_ms


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


async def test_the_generator_runs_in_a_process_of_its_own() -> None:
    with generator() as helper:
        async with serving(lambda body: http(200, body)) as port:
            outcome = await asyncio.to_thread(helper.ask, load(port, [b"a", b"b"], keep=True))
    assert outcome.bodies == [b"a", b"b"]


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert percentile([7.0], 0.99) == 7.0
    assert math.isnan(percentile([], 0.5))

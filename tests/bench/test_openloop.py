import asyncio
import math
import time
from functools import partial

from shoal.bench.load import request
from shoal.bench.openloop import Arrivals, drive, open_generator
from tests.bench.scripted import http, serving


def arrivals(ports: list[int], due_s: list[float], which: list[int], patience_s: float) -> Arrivals:
    requests = [request("h", "/", body, "text/plain", "*/*") for body in (b"0", b"1", b"2")]
    return Arrivals([("127.0.0.1", port) for port in ports], requests, due_s, which, patience_s)


async def test_requests_go_out_in_time_and_to_all_gateways() -> None:
    seen: list[list[bytes]] = [[], []]

    def noted(place: int, body: bytes) -> bytes:
        seen[place].append(body)
        return http(200, body)

    async with serving(partial(noted, 0)) as left, serving(partial(noted, 1)) as right:
        began = time.perf_counter()
        answered = await drive(arrivals([left, right], [0.0, 0.1, 0.2], [0, 1, 2], 5.0))
        took = time.perf_counter() - began
    assert seen == [[b"0", b"2"], [b"1"]]
    assert 0.2 <= took < 2.0
    assert answered.errors == {} and None not in answered.latency_s


async def test_nobody_waits_for_an_answer_that_does_not_come() -> None:
    async with serving(lambda body: b"" if body == b"1" else http(200, body)) as port:
        answered = await drive(arrivals([port], [0.0] * 50, [1] + [0] * 49, 0.3))
    assert answered.latency_s[0] is None
    assert sum(latency is not None for latency in answered.latency_s) == 49
    assert answered.errors == {"no answer": 1}


async def test_refusals_and_broken_connections_are_told_apart() -> None:
    answers = {b"0": http(429, b""), b"1": None, b"2": http(200, b"")}
    async with serving(lambda body: answers[body]) as port:
        answered = await drive(arrivals([port], [0.0, 0.01, 0.02], [0, 1, 2], 5.0))
    assert answered.errors == {"429": 1, "connection lost": 1}
    assert [latency is None for latency in answered.latency_s] == [True, True, False]


async def test_latency_counts_from_when_a_request_was_due() -> None:
    def stalls(body: bytes) -> bytes:
        time.sleep(0.2)  # the generator with it: they share a loop here
        return http(200, body)

    async with serving(stalls) as port:
        answered = await drive(arrivals([port], [0.0, 0.05], [0, 0], 5.0))
    assert sum(latency or math.nan for latency in answered.latency_s) > 0.3


async def test_it_runs_in_a_process_of_its_own() -> None:
    with open_generator() as helper:
        async with serving(lambda body: http(200, body)) as port:
            asked = arrivals([port], [0.0, 0.01], [0, 1], 5.0)
            answered = await asyncio.to_thread(helper.ask, asked)
    assert None not in answered.latency_s

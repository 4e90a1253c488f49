"""The protocol core without sockets: bounds and order hold whatever a server does."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.client import Encoded
from shoal.client.api import Api
from shoal.client.encode import Vectors
from shoal.client.items import Item, Limits, cut, item_bytes, items_of
from shoal.client.job import Job
from shoal.client.models import Get
from shoal.client.protocol import Answered, Exchange, Finished, Lost, Policy, Request, Retry, Send
from shoal.client.question import Answers
from shoal.errors import ConfigError, ShoalError
from tests.client.scripted import MSGPACK, item_error, vector

texts = st.text(max_size=20) | st.lists(st.integers(0, 1 << 31), max_size=8)
limits = st.builds(Limits, st.integers(1, 9), st.integers(1, 40), st.integers(1, 4))


@given(st.lists(texts, max_size=60), limits)
def test_cutting_loses_nothing_and_keeps_the_bounds(given_texts: Any, bounds: Limits) -> None:
    items = items_of(given_texts)
    parts = list(cut(items, bounds))
    assert [position for part in parts for position in part] == list(range(len(items)))
    for part in parts:
        assert 1 <= len(part) <= bounds.request_items
        size = sum(item_bytes(items[position]) for position in part)
        assert size <= bounds.request_bytes or len(part) == 1


def test_bytes_stay_bytes_and_one_alone_is_one_item() -> None:
    data = bytes(range(256))
    assert items_of(data) == [data]
    assert items_of([data, bytearray(b"x"), memoryview(b"y")]) == [data, b"x", b"y"]
    assert item_bytes(data) == 256


@given(texts)
def test_a_token_list_or_text_is_no_larger_than_counted(text: Any) -> None:
    (item,) = items_of([text])
    header = 5
    assert len(msgspec.msgpack.encode(item)) <= item_bytes(item) + header


statuses = st.sampled_from([200, 400, 404, 408, 429, 500, 502, 503, 504])
waits = st.none() | st.floats(0, 100) | st.sampled_from([-1.0, float("inf"), float("nan")])


def _answered(status: int, retry_after: float | None) -> Answered:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Answered(status, headers, b"")


outcomes = st.builds(_answered, statuses, waits) | st.builds(Lost, st.just("gone"), st.booleans())


class Ping:
    """Asks the same until any 2xx."""

    def request(self) -> Request:
        return Request("GET", "/")

    def refused(self, error: ShoalError, answer: Answered) -> bool:
        return False

    def read(self, answer: Answered) -> None:
        pass

    def result(self) -> str:
        return "pong"

    def give_up(self, error: ShoalError) -> str:
        raise error


@given(
    st.lists(outcomes, min_size=40, max_size=40),
    st.integers(0, 8),
    st.floats(0.1, 100),
    st.lists(st.floats(0, 3), min_size=40, max_size=40),
    st.integers(),
)
def test_resends_waits_and_time_are_bounded(
    script: list[Answered | Lost], limit: int, timeout_s: float, lasts: list[float], seed: int
) -> None:
    policy = Policy(timeout_s, Retry(limit), random.Random(seed))
    exchange = Exchange(Ping(), policy)
    now, sends, ids = 1000.0, 0, set()
    step: Send | Finished[str] = exchange.begin(now)
    try:
        while isinstance(step, Send):
            sends += 1
            ids.add(step.request.headers["x-request-id"])
            now += step.wait_s
            assert now + step.timeout_s <= 1000.0 + timeout_s + 1e-6
            assert float(step.request.headers["x-request-timeout"]) <= step.timeout_s + 0.001
            outcome = script.pop()
            now += min(lasts.pop(), step.timeout_s)
            step = exchange.handle(outcome, now)
            if isinstance(step, Send) and isinstance(outcome, Answered):
                asked_s = float(outcome.headers.get("retry-after", 0))
                assert step.wait_s >= asked_s or not 0 <= asked_s < float("inf")
    except ShoalError:
        pass
    assert sends <= limit + 1
    assert len(ids) == sends


def _serve(send: Send, rng: random.Random) -> Answered | Lost:
    """A server under stress: loses, refuses, fails items for now or for good, or answers."""
    if rng.random() < 0.2:
        return Lost("gone")
    if rng.random() < 0.2:
        return Answered(503, {}, b"")
    assert send.request.body is not None
    items = msgspec.msgpack.decode(send.request.body)["items"]
    body = msgspec.msgpack.encode({"items": [_answer_item(item, rng) for item in items]})
    return Answered(200, {"content-type": MSGPACK}, body)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_timeout_is_a_number_above_0(timeout_s: float) -> None:
    with pytest.raises(ConfigError, match="timeout_s"):
        Policy(timeout_s)


def test_the_last_of_a_budget_is_not_rounded_to_none() -> None:
    send = Exchange(Get("/", int), Policy(1e-4)).begin(0.0)
    assert send.request.headers["x-request-timeout"] == "0.001"


def _answer_item(item: str, rng: random.Random) -> dict[str, Any]:
    if int(item) % 7 == 3:
        return item_error("compute_failed", item)
    if rng.random() < 0.1:
        return item_error("unavailable", item, retryable=True)
    return vector(item)


@given(st.integers(0, 60), limits, st.randoms(use_true_random=False))
def test_rows_are_joined_in_order_whatever_happens(
    count: int, bounds: Limits, rng: random.Random
) -> None:
    policy = Policy(1e9, Retry(1000), rng)
    reports: list[tuple[int, int]] = []
    plan = Api(policy, policy, bounds).encode_detailed("m", [str(n) for n in range(count)])
    job = plan.job(lambda done, total: reports.append((done, total)))
    for rows in _performed_in_any_order(job, rng):
        job.settle(rows)
    encoded = job.result()
    bad = {n for n in range(count) if n % 7 == 3}
    assert set(encoded.errors) == bad
    assert encoded.positions.tolist() == [n for n in range(count) if n not in bad]
    assert encoded.vectors[:, :1].ravel().tolist() == encoded.positions.tolist()
    assert [error.message for error in encoded.errors.values()] == [
        f"items[{n}]: {n}" for n in sorted(bad)
    ]
    assert not reports or reports[-1] == (count, count)


def _performed_in_any_order(
    job: Job[Vectors, Encoded], rng: random.Random
) -> list[Answers[Vectors]]:
    done = []
    while (exchange := job.next()) is not None:
        step: Send | Finished[Answers[Vectors]] = exchange.begin(0.0)
        while isinstance(step, Send):
            step = exchange.handle(_serve(step, rng), 0.0)
        done.append(step.value)
    rng.shuffle(done)
    return done


def test_items_are_exact_types_that_messagepack_takes() -> None:
    mixed: Any = [np.str_("a"), np.array([1, 2]), (3, 4)]
    made: list[Item] = items_of(mixed)
    assert [type(item) for item in made] == [str, list, list]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made)) == ["a", [1, 2], [3, 4]]

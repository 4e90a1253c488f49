import math

import msgspec
import pytest

from shoal.bench.load import Outcome, encode, get, percentile, post


def test_requests_are_whole() -> None:
    assert get("/x") == b"GET /x HTTP/1.1\r\nHost: bench\r\n\r\n"
    sent = post("/x", b"body", "text/plain", accept="image/png", key="secret")
    head, _, body = sent.partition(b"\r\n\r\n")
    assert body == b"body" and b"Content-Length: 4\r\n" in head
    assert b"Accept: image/png\r\n" in head and b"Authorization: Bearer secret" in head


def test_an_encode_request_is_told_and_answered_in_one_form() -> None:
    head, _, body = encode("m", [b"\x00\xff"]).partition(b"\r\n\r\n")
    assert msgspec.msgpack.decode(body) == {"items": [b"\x00\xff"]}
    assert head.count(b"application/msgpack") == 2 and head.startswith(b"POST /v1/encode/m ")
    _, _, body = encode("m", ["a"], "json").partition(b"\r\n\r\n")
    assert body == b'{"items":["a"]}'


def test_an_outcome_tells_answers_from_requests() -> None:
    outcome = Outcome(0.0, 2.0, [0.1, None, 0.3])
    assert (outcome.answered, outcome.per_second) == (2, 1.0)
    assert outcome.waited_s == [0.1, math.inf, 0.3]
    assert outcome.answered_ms(0.5) == pytest.approx(100)


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert percentile([7.0], 0.99) == 7.0
    assert math.isnan(percentile([], 0.5))

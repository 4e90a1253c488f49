"""Figures that would spoil what others decide are not read."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ProtocolError
from shoal.wire import queue as q
from shoal.wire import socket as s
from shoal.wire.codec import Message, encode

BAD = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, -1e-9, 1e10]), st.floats(max_value=-1e-12)
)
GOOD = st.floats(0.0, 1e9)
MODEL = q.ModelPulse("resident", 1, 1e-6, 1e-5, 0.1, None, 0.5, 100, 2.0, True, 0.1)
SECONDS = [
    *("seconds_per_byte", "seconds_per_item", "shelf_s", "longest_item_s", "load_s", "batch_s"),
    *("again_s", "seconds_per_new_token", "new_tokens"),
]
COUNTS = ["lanes", "bytes"]


def worker(**figures: Any) -> q.WorkerPulse:
    models = {"m": msgspec.structs.replace(MODEL, **figures)}
    return q.WorkerPulse("w", "default", "here", ["cpu"], models)


@given(st.sampled_from(SECONDS), BAD)
def test_a_worker_that_tells_nonsense_is_not_read(figure: str, told: float) -> None:
    with pytest.raises(ProtocolError, match="queue message: Expected"):
        q.decode_queue(encode(worker(**{figure: told})))


@given(st.sampled_from(COUNTS), st.integers(-(2**63), -1))
def test_nor_is_one_that_tells_of_fewer_than_none(figure: str, told: int) -> None:
    with pytest.raises(ProtocolError, match="queue message: Expected"):
        q.decode_queue(encode(worker(**{figure: told})))


@given(st.fixed_dictionaries(dict.fromkeys(SECONDS, GOOD)))
def test_all_else_is(figures: dict[str, float]) -> None:
    pulse = worker(**figures)
    assert q.decode_queue(encode(pulse)) == pulse


@given(st.sampled_from(["outstanding_s", "queued_s", "bulk_s"]), BAD)
def test_a_gateway_likewise(figure: str, told: float) -> None:
    pulse = q.GatewayPulse("g", "default", {"m": 1.0})
    with pytest.raises(ProtocolError):
        q.decode_queue(encode(msgspec.structs.replace(pulse, **{figure: {"m": told}})))


@pytest.mark.parametrize(
    "message",
    [
        q.WorkerPulse("w", "p", "h", [], {}, -1),
        q.WorkerPulse("w", "p", "h", [], {}, memory={"cpu": q.LaneMemory(-1, 1)}),
        q.GatewayPulse("g", "p", {}, requests={"m": -1}),
        q.GatewayPulse("g", "p", {}, waiting_s={"m": {"t": math.nan}}),
    ],
)
def test_nor_any_other_figure_of_a_pulse(message: Message) -> None:
    with pytest.raises(ProtocolError):
        q.decode_queue(encode(message))


@pytest.mark.parametrize("loaded", [s.Loaded("m", -1, 1.0), s.Loaded("m", 1, math.nan)])
def test_nor_what_a_runtime_tells_of_a_load(loaded: s.Loaded) -> None:
    with pytest.raises(ProtocolError):
        s.decode_from_runtime(encode(loaded))

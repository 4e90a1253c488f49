from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal.errors import ProtocolError
from shoal.wire.arrays import DTYPES, Array, from_wire, to_wire
from shoal.wire.frames import FrameReader, frame_of
from shoal.wire.socket import Done, decode_from_runtime


def across(array: NDArray[Any]) -> tuple[memoryview, NDArray[Any]]:
    """Through a frame and back: the frame, and the array decoded from it."""
    sent = frame_of(Done(1, {"x": to_wire(array)}, 0.0))
    reader = FrameReader()
    frames: list[memoryview] = []
    while sent:
        count = min(len(sent), len(reader.buffer()))
        reader.buffer()[:count] = sent[:count]
        sent = sent[count:]
        frames += reader.received(count)
    (frame,) = frames
    done = decode_from_runtime(frame)
    assert isinstance(done, Done)
    return frame, from_wire(done.arrays["x"])


@given(
    st.sampled_from(sorted(DTYPES)),
    st.lists(st.integers(0, 4), max_size=4),
    st.integers(0, 2**32),
)
def test_every_dtype_and_shape_comes_back(dtype: str, shape: list[int], seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 100, shape)
    array = np.asarray(bits).astype(DTYPES[dtype])
    _, got = across(array)
    assert got.dtype == array.dtype
    assert got.shape == array.shape
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("rows", [1, 10_000])
def test_a_decoded_array_views_the_frame(rows: int) -> None:
    frame, got = across(np.arange(rows * 384, dtype=np.float32).reshape(rows, 384))
    assert np.shares_memory(got, np.frombuffer(frame, np.uint8))
    assert got[-1, -1] == rows * 384 - 1


def test_an_array_is_not_copied_before_it_is_encoded() -> None:
    array = np.ones((3, 4), np.float32)
    assert np.shares_memory(array, np.frombuffer(to_wire(array).data, np.float32))


def test_a_strided_array_travels_in_row_order() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4).T
    _, got = across(array)
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("dtype", [np.float64, np.bool_, np.complex64, np.dtype(">f4"), object])
def test_other_dtypes_cannot_travel(dtype: Any) -> None:
    with pytest.raises(ProtocolError, match="cannot travel; use one of"):
        to_wire(np.zeros(2, dtype))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6), st.binary(max_size=64))
def test_shape_and_bytes_must_agree(shape: list[int], data: bytes) -> None:
    array = Array("float32", tuple(shape), memoryview(data))
    try:
        got = from_wire(array)
    except ProtocolError:
        return
    assert got.nbytes == len(data)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (Array("float32", (2, 2), memoryview(b"1234")), "needs 16 bytes but 4 came"),
        (Array("float32", (-1, -1), memoryview(b"1234")), "negative dimension"),
        (Array("bfloat16", (2,), memoryview(b"1234")), "unknown array dtype 'bfloat16'"),
        (Array("float32", (1,) * 65, memoryview(b"1234")), "array shape .* dimension"),
        (Array("float32", (0, 2**62, 2**62), memoryview(b"")), "array shape"),
    ],
)
def test_what_is_wrong_is_said(array: Array, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        from_wire(array)

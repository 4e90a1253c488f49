from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.catalog.convert.protobuf import fields, grouped, integers, message, text

from .onnx_files import field, varint


@given(
    st.lists(
        st.tuples(st.integers(1, 1000), st.integers(0, (1 << 64) - 1) | st.binary(max_size=300))
    )
)
def test_what_was_written_is_read(written: list[tuple[int, int | bytes]]) -> None:
    data = b"".join(field(number, value) for number, value in written)
    read = [(n, v if isinstance(v, int) else bytes(v)) for n, v in fields(memoryview(data))]
    assert read == written


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_integers_alone_and_packed(numbers: list[int]) -> None:
    packed = memoryview(b"".join(map(varint, numbers)))
    assert integers([packed]) == numbers
    alone = b"".join(field(1, number & (1 << 64) - 1) for number in numbers)
    assert integers(grouped(memoryview(alone)).get(1, [])) == numbers


def test_fixed_width_values_stay_bytes() -> None:
    data = memoryview(b"\x0d\x01\x02\x03\x04\x11\x01\x02\x03\x04\x05\x06\x07\x08")
    assert [(n, len(message(v))) for n, v in fields(data)] == [(1, 4), (2, 8)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x0a\x05abc", "a field of 5 bytes passes the end"),
        (b"\x0b", "unknown wire type 3"),
        (b"\x0d\x00", "a field of 4 bytes passes the end"),
        (b"\xff" * 11, "a number does not end"),
        (b"\x08\x80", "a number does not end"),
    ],
)
def test_bytes_that_are_no_message(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        list(fields(memoryview(data)))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        assert all(number >= 0 for number, _ in fields(memoryview(data)))


def test_a_field_of_another_kind() -> None:
    with pytest.raises(ValueError, match="where a text belongs"):
        text(1)
    with pytest.raises(ValueError, match="where bytes belong"):
        message(1)
    with pytest.raises(ValueError, match="utf-8"):
        text(memoryview(b"\xff"))

"""Whatever bytes come, a decoder answers with a message or a `ProtocolError`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ProtocolError
from shoal.wire import codec
from shoal.wire import queue as q
from shoal.wire import socket as m

GOLDEN = Path(__file__).parent / "golden"
DECODERS: list[Callable[[bytes], codec.Message]] = [
    q.decode_queue,
    m.decode_to_runtime,
    m.decode_from_runtime,
]


def body(path: Path) -> bytes:
    data = bytes.fromhex(path.read_text())
    return data[4:] if data[0] == 0 else data  # a frame begins with its length, below 16 MB


BODIES = {path.stem: body(path) for path in sorted(GOLDEN.glob("*.hex"))}
names = st.sampled_from(sorted(BODIES))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 99), inner),
    max_leaves=8,
)  # fmt: skip


def survives(data: bytes) -> None:
    for decode in DECODERS:
        with suppress(ProtocolError):
            decode(data)


@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    survives(data)


@given(names, st.data())
def test_a_truncated_message_is_refused(name: str, data: st.DataObject) -> None:
    whole = BODIES[name]
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for decode in DECODERS:
        with pytest.raises(ProtocolError):
            decode(cut)


@given(names, st.binary(min_size=1, max_size=20))
def test_bytes_after_a_message_are_refused(name: str, extra: bytes) -> None:
    for decode in DECODERS:
        with pytest.raises(ProtocolError):
            decode(BODIES[name] + extra)


@given(names, st.data(), st.binary(min_size=1, max_size=8))
def test_overwritten_bytes(name: str, data: st.DataObject, patch: bytes) -> None:
    whole = bytearray(BODIES[name])
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at : at + len(patch)] = patch
    survives(bytes(whole))


@given(names, st.data(), values)
def test_a_field_of_another_type(name: str, data: st.DataObject, value: Any) -> None:
    fields = msgspec.msgpack.decode(BODIES[name], strict=False)
    fields[data.draw(st.integers(0, len(fields) - 1))] = value
    survives(msgspec.msgpack.encode(fields))


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1x", b"\xdd\x00\x00\x00\x01"])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    load = b"\x98\xa4load\xa1m\xa1p\xa4bert\x80\xa4auto\x10\x81\xa1o"
    for data in (opening * 100_000, load + opening * 100_000 + b"\xc0"):
        for decode in DECODERS:
            with pytest.raises(ProtocolError):
                decode(data)


@pytest.mark.parametrize("kind", [b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"])
def test_a_size_that_promises_four_gigabytes_is_refused(kind: bytes) -> None:
    promise = kind + b"\xff\xff\xff\xff"
    bye = b"\x92\xa3bye"
    cancel = b"\x92\xa6cancel"
    for data in (promise, bye + promise, cancel + promise):
        for decode in DECODERS:
            with pytest.raises(ProtocolError):
                decode(data)


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(ProtocolError):
        m.decode_to_runtime(b"\x92\xa3bye\xa2\xff\xfe")


def test_a_message_of_the_other_direction_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"frame from the worker.*'loaded'"):
        m.decode_to_runtime(BODIES["loaded"])
    with pytest.raises(ProtocolError, match=r"frame from the runtime.*'load'"):
        m.decode_from_runtime(BODIES["load"])


def test_fields_appended_by_a_newer_process_are_ignored() -> None:
    fields = msgspec.msgpack.decode(BODIES["bye"])
    newer = msgspec.msgpack.encode([*fields, "a field of tomorrow", 7])
    assert m.decode_to_runtime(newer) == m.Bye("terminated")


def test_fields_an_older_process_does_not_send_take_their_defaults() -> None:
    older = msgspec.msgpack.encode(["hello", "torch", "0.1", "cpu", []])
    assert m.decode_from_runtime(older) == m.Hello("torch", "0.1", "cpu", m.Capabilities())

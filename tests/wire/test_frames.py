from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ProtocolError
from shoal.wire import frames
from shoal.wire.codec import encode
from shoal.wire.frames import INBOX_BYTES, MAX_FRAME_BYTES, FrameReader, frame_of
from shoal.wire.socket import Bye, decode_from_runtime

sizes = st.one_of(
    st.integers(0, 50),
    st.integers(INBOX_BYTES - 6, INBOX_BYTES + 6),
    st.integers(0, 4 * INBOX_BYTES),
)


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    """As a socket would: never more at once than the reader has room for."""
    got = []
    while data:
        buffer = reader.buffer()
        count = min(len(buffer), len(data))
        assert count > 0
        buffer[:count] = data[:count]
        data = data[count:]
        got += [bytes(frame) for frame in reader.received(count)]
    return got


@given(st.lists(sizes, max_size=6), st.lists(st.integers(0, 10 * INBOX_BYTES), max_size=10))
def test_frames_come_out_whole_however_the_bytes_arrive(
    lengths: list[int], cuts: list[int]
) -> None:
    bodies = [bytes([i + 1]) * length for i, length in enumerate(lengths)]
    stream = b"".join(map(framed, bodies))
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    reader = FrameReader()
    got = [frame for a, b in pairwise(edges) for frame in feed(reader, stream[a:b])]
    assert got == bodies


def test_one_byte_at_a_time() -> None:
    bodies = [b"", b"a", bytes(range(256)) * 3, b"", b"end"]
    reader = FrameReader()
    stream = b"".join(map(framed, bodies))
    got = [frame for byte in stream for frame in feed(reader, bytes([byte]))]
    assert got == bodies


def test_a_frame_keeps_its_bytes_while_later_ones_arrive() -> None:
    reader = FrameReader()
    stream = framed(b"first")
    reader.buffer()[: len(stream)] = stream
    (first,) = reader.received(len(stream))
    feed(reader, framed(b"other" * 1000))
    assert bytes(first) == b"first"


@given(st.integers(MAX_FRAME_BYTES + 1, 2**32 - 1))
def test_an_oversized_header_is_refused_before_memory_is_taken(length: int) -> None:
    with pytest.raises(ProtocolError, match="over the limit"):
        feed(FrameReader(), struct.pack(">I", length))


def test_frames_before_a_bad_header_still_come_out() -> None:
    reader, got = FrameReader(), []
    stream = framed(b"last") + b"\xff\xff\xff\xff"
    reader.buffer()[: len(stream)] = stream
    with pytest.raises(ProtocolError):
        for frame in reader.received(len(stream)):
            got.append(bytes(frame))  # noqa: PERF401 (a comprehension would lose it)
    assert got == [b"last"]


def test_a_message_over_the_limit_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 100)
    with pytest.raises(ProtocolError, match="over the limit of 100"):
        frame_of(Bye(101 * "x"))


def test_a_frame_is_a_header_and_the_encoded_message() -> None:
    assert frame_of(Bye("x")) == framed(encode(Bye("x")))
    assert decode_from_runtime(frame_of(Bye("x"))[4:]) == Bye("x")

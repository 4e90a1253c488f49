from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidRequest, PayloadTooLarge, ShoalError
from shoal.gateway.body import BodyDecoder, ItemLimits, checked_items
from shoal.gateway.compat.embeddings import EmbeddingsBody
from shoal.gateway.compat.inputs import inputs
from shoal.gateway.encode import EncodeBody
from shoal.values import Encoding

NATIVE, COMPAT = BodyDecoder(EncodeBody), BodyDecoder(EmbeddingsBody)
LIMITS = ItemLimits(items=100, item_bytes=1000)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_items_are_found_and_left_as_they_are(encoding: Encoding) -> None:
    codec: Any = msgspec.json if encoding == "json" else msgspec.msgpack
    items = ["text", [1, 2], {"text": "x"}]
    body = NATIVE.decode(codec.encode({"items": items}), encoding)
    assert checked_items(body.items, encoding, LIMITS, "items") == [codec.encode(i) for i in items]


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
@pytest.mark.parametrize("wrong", [None, True, 1, -1, 300, -300, 1.5])
def test_the_first_byte_tells_a_wrong_type(encoding: Encoding, wrong: Any) -> None:
    codec: Any = msgspec.json if encoding == "json" else msgspec.msgpack
    body = NATIVE.decode(codec.encode({"items": ["a", wrong]}), encoding)
    with pytest.raises(InvalidRequest) as caught:
        checked_items(body.items, encoding, LIMITS, "items")
    assert caught.value.param == "items[1]"


def test_binary_is_no_item() -> None:
    body = NATIVE.decode(msgspec.msgpack.encode({"items": [b"bytes"]}), "msgpack")
    with pytest.raises(InvalidRequest):
        checked_items(body.items, "msgpack", LIMITS, "items")


def test_limits() -> None:
    with pytest.raises(PayloadTooLarge, match="101 items"):
        checked_items([msgspec.Raw(b'"a"')] * 101, "json", LIMITS, "items")
    with pytest.raises(PayloadTooLarge, match=r"items\[0\] has 1002 bytes"):
        checked_items([msgspec.Raw(b'"' + b"a" * 1000 + b'"')], "json", LIMITS, "items")


def test_a_syntax_error_says_where() -> None:
    with pytest.raises(InvalidRequest, match="line 1 column"):
        NATIVE.decode(b'{"items": ["a",]}', "json")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_body_or_a_clear_refusal(data: bytes) -> None:
    for decoder in (NATIVE, COMPAT):
        for encoding in ("json", "msgpack"):
            try:
                decoder.decode(data, encoding)
            except InvalidRequest as error:
                assert error.message


@given(VALUES)
def test_any_input_is_items_or_a_clear_refusal(value: Any) -> None:
    raw = msgspec.Raw(msgspec.json.encode(value))
    try:
        items = checked_items(inputs(raw, "input"), "json", LIMITS, "input")
    except ShoalError as error:
        assert error.status in (400, 413)
    else:
        assert isinstance(value, str | list)
        assert all(item[:1] in b'"[' for item in items)


@given(st.lists(VALUES, max_size=6), st.sampled_from(["json", "msgpack"]))
def test_any_items_are_taken_or_refused(values: list[Any], encoding: Encoding) -> None:
    codec: Any = msgspec.json if encoding == "json" else msgspec.msgpack
    body = NATIVE.decode(codec.encode({"items": values}), encoding)
    wrong = [not isinstance(v, str | list | dict) for v in values]
    try:
        items = checked_items(body.items, encoding, LIMITS, "items")
    except ShoalError as error:
        assert not values or any(wrong)
        assert error.param == (f"items[{wrong.index(True)}]" if values else "items")
    else:
        assert items == [codec.encode(value) for value in values]

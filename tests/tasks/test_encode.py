import base64

import msgspec
import numpy as np
import pytest

from shoal.errors import InvalidItem
from shoal.tasks import encode
from shoal.values import EncodeParams


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        ("fish", "fish"),
        ("", ""),
        ({"text": "fish"}, "fish"),
        ([1, 2], [1, 2]),
        ([], []),
        ({"tokens": [3]}, [3]),
    ],
)
def test_reads_every_form_in_both_encodings(item: object, wanted: object) -> None:
    assert encode.read_item(msgspec.json.encode(item), "json") == wanted
    assert encode.read_item(msgspec.msgpack.encode(item), "msgpack") == wanted


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"7",
        b"null",
        b"{}",
        b'{"text": "a", "tokens": [1]}',
        b'{"txt": "a"}',
        b'["a"]',
        b"[1.5]",
        b'"\\ud800"',
        b'"\xed\xa0\x80"',
        b"[" * 100_000,
    ],
)
def test_anything_else_is_an_invalid_item_that_names_the_forms(raw: bytes) -> None:
    with pytest.raises(InvalidItem, match="an item is"):
        encode.read_item(raw, "json")


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\xa3\xed\xa0\x80", b"\x91", b"\xc4\x05a", b"\x05"])
def test_malformed_messagepack_items(raw: bytes) -> None:
    with pytest.raises(InvalidItem):
        encode.read_item(raw, "msgpack")


def test_media_are_bytes_in_messagepack_and_base64_in_json() -> None:
    data = bytes(range(256))
    assert encode.read_item(msgspec.msgpack.encode(data), "msgpack") == encode.Media(data)
    text = base64.b64encode(data).decode()
    for kind in ("image", "audio"):
        media = encode.Media(data, kind)
        assert encode.read_item(msgspec.msgpack.encode({kind: data}), "msgpack") == media
        assert encode.read_item(msgspec.json.encode({kind: text}), "json") == media
    url = {"image_url": f"data:image/png;base64,{text}"}
    assert encode.read_item(msgspec.json.encode(url), "json") == encode.Media(data, "image")


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"image": "no base64"}, "base64"),
        ({"image_url": "https://example.org/a.png"}, "nothing is fetched"),
        ({"image_url": "data:image/png,raw"}, "must be data:"),
        ({"image_url": "data:image/png;base64,%%"}, "invalid base64"),
        ({"image": "AAAA", "text": "a"}, "exactly one"),
    ],
)
def test_media_that_cannot_be_read_say_why(item: object, why: str) -> None:
    with pytest.raises(InvalidItem, match=why):
        encode.read_item(msgspec.json.encode(item), "json")


def test_cuts_then_normalises() -> None:
    pooled = np.array([[3.0, 4.0, 12.0], [0.0, 0.0, 5.0]], np.float32)
    whole = encode.scaled(pooled, EncodeParams(), normalize=True)
    assert np.allclose(np.linalg.norm(whole, axis=1), 1)
    cut = encode.scaled(pooled, EncodeParams(dimensions=2), normalize=True)
    wanted = np.array([[0.6, 0.8], [0.0, 0.0]])  # a zero vector stays zero
    assert np.allclose(cut, wanted, atol=1e-6)
    assert np.array_equal(encode.scaled(pooled, EncodeParams(normalize=False), True), pooled)
    assert np.array_equal(encode.scaled(pooled, EncodeParams(), normalize=False), pooled)


def test_finds_rows_that_are_not_finite() -> None:
    rows = np.ones((5, 4), np.float32)
    rows[1, 2] = np.nan
    rows[3, 0] = np.inf
    rows[4, :2] = [np.inf, -np.inf]
    assert encode.invalid_rows(rows) == [1, 3, 4]
    assert encode.invalid_rows(np.full((1, 4), 3e38, np.float32)) == []

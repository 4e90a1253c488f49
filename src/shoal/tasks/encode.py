"""`encode`: reads a text, token-id or media item; cuts and normalises pooled vectors.

Pure: bytes and arrays in, values out. Tokenizing and computing happen elsewhere.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import InvalidItem, ModelOutputInvalid
from shoal.tasks.generate.conversation import Conversation
from shoal.tasks.urls import data_of
from shoal.values import EncodeParams, Encoding

FORMS = (
    'a string, {"text": "..."}, a list of token ids; or, where the model takes them, bytes '
    '(MessagePack), {"image": "<base64>"}, {"image_url": "data:..."} or {"audio": "<base64>"}'
)
#: MessagePack's types of bytes: https://github.com/msgpack/msgpack/blob/master/spec.md#bin-format-family
_BIN = frozenset((0xC4, 0xC5, 0xC6))

Vectors = NDArray[np.floating[Any]]


class Media(msgspec.Struct, frozen=True):
    """A file: an image, audio, or (`kind` None) whichever the model takes."""

    data: bytes
    kind: Literal["image", "audio"] | None = None


#: A conversation is read by another function, where the task says so.
Item = str | list[int] | Media | Conversation


class _ItemObject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one is given. In JSON, bytes are base64."""

    text: str | None = None
    tokens: list[int] | None = None
    image: bytes | None = None
    image_url: str | None = None
    audio: bytes | None = None


_Item = str | list[int] | _ItemObject
_DECODERS: dict[Encoding, Any] = {
    "json": msgspec.json.Decoder(_Item),
    "msgpack": msgspec.msgpack.Decoder(_Item),
}
_decode_bin = msgspec.msgpack.Decoder(bytes).decode


def read_item(raw: bytes | bytearray | memoryview, encoding: Encoding) -> str | list[int] | Media:
    """One item, decoded.

    Raises:
        InvalidItem: not one of the allowed forms, or text that is not Unicode (a lone surrogate).
    """
    try:
        if encoding == "msgpack" and raw and raw[0] in _BIN:
            return Media(_decode_bin(raw))
        item = _DECODERS[encoding].decode(raw)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        why = str(error) if isinstance(error, msgspec.ValidationError) else "not valid Unicode text"
        raise InvalidItem(f"{why}; an item is {FORMS}") from None
    if isinstance(item, str | list):
        return item
    return _content(item)


def _content(item: _ItemObject) -> str | list[int] | Media:
    given = [value for value in msgspec.structs.astuple(item) if value is not None]
    if len(given) != 1:
        names = '"text", "tokens", "image", "image_url" and "audio"'
        raise InvalidItem(f"give exactly one of {names}; an item is {FORMS}")
    if item.image is not None:
        return Media(item.image, "image")
    if item.image_url is not None:
        return Media(data_of(item.image_url, '"image_url"'), "image")
    if item.audio is not None:
        return Media(item.audio, "audio")
    return item.text if item.text is not None else (item.tokens or [])


def scaled(
    pooled: NDArray[np.float32], params: EncodeParams, normalize: bool
) -> NDArray[np.float32]:
    """Cut and normalise pooled vectors.

    Args:
        pooled: [n, dim] float32 as the head returned them.
        params: what the caller asked; `params.normalize` wins over `normalize`, the card's.

    Returns:
        [n, dimensions or dim]. A zero vector stays zero. Matryoshka vectors are normalised after
        they are cut (Kusupati et al., 2022).
    """
    vectors: NDArray[np.float32] = pooled[:, : params.dimensions]
    if normalize if params.normalize is None else params.normalize:
        # Overflow and NaN are looked for afterwards, by `invalid_rows`.
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            vectors = vectors / np.maximum(norms, 1e-12)[:, None]
    return vectors


def invalid_rows(vectors: Vectors) -> list[int]:
    """Rows that hold NaN or infinity."""
    # One cheap pass: a sum in float64 of finite float32 values is finite.
    with np.errstate(invalid="ignore"):
        suspects = np.flatnonzero(~np.isfinite(vectors.sum(axis=1, dtype=np.float64)))
    return [int(row) for row in suspects if not np.isfinite(vectors[row]).all()]


def invalid_output() -> ModelOutputInvalid:
    """The error of an item whose vector is not finite."""
    return ModelOutputInvalid("the model answered with NaN or infinity for this item")

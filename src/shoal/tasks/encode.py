"""`encode`: reads a text or token-id item, and turns pooled vectors into what was asked.

Pure: bytes and arrays in, values out. Tokenizing and computing happen elsewhere.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import InvalidItem, ModelOutputInvalid
from shoal.values import EncodeParams, Encoding

FORMS = 'a string, {"text": "..."}, or a list of token ids'

Vectors = NDArray[np.floating[Any]]


class _ItemObject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str | None = None
    tokens: list[int] | None = None


_Item = str | list[int] | _ItemObject
_DECODERS: dict[Encoding, Any] = {
    "json": msgspec.json.Decoder(_Item),
    "msgpack": msgspec.msgpack.Decoder(_Item),
}


def read_item(raw: bytes, encoding: Encoding) -> str | list[int]:
    """The text or the token ids of one item.

    Raises:
        InvalidItem: not one of the allowed forms, or text that is not Unicode (a lone surrogate).
    """
    try:
        item = _DECODERS[encoding].decode(raw)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        why = str(error) if isinstance(error, msgspec.ValidationError) else "not valid Unicode text"
        raise InvalidItem(f"{why}; an item is {FORMS}") from None
    if isinstance(item, str | list):
        return item
    if (item.text is None) == (item.tokens is None):
        raise InvalidItem(f'give exactly one of "text" and "tokens"; an item is {FORMS}')
    return item.text if item.text is not None else (item.tokens or [])


def finish(pooled: NDArray[np.float32], params: EncodeParams, normalize: bool) -> Vectors:
    """Truncate, normalise and convert pooled vectors.

    Args:
        pooled: [n, dim] float32 as the head returned them.
        params: what the caller asked; `params.normalize` wins over `normalize`, the card's.

    Returns:
        [n, dimensions or dim] of `params.dtype`. A zero vector stays zero. Matryoshka vectors are
        normalised after they are cut (Kusupati et al., 2022).
    """
    vectors: NDArray[np.float32] = pooled[:, : params.dimensions]
    # Overflow and NaN are looked for afterwards, by `invalid_rows`.
    with np.errstate(over="ignore", invalid="ignore"):
        if normalize if params.normalize is None else params.normalize:
            norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            vectors = vectors / np.maximum(norms, 1e-12)[:, None]
        return vectors.astype(params.dtype, copy=False)


def invalid_rows(vectors: Vectors) -> list[int]:
    """Rows that hold NaN or infinity."""
    # One cheap pass: a sum in float64 of finite float32 values is finite.
    with np.errstate(invalid="ignore"):
        suspects = np.flatnonzero(~np.isfinite(vectors.sum(axis=1, dtype=np.float64)))
    return [int(row) for row in suspects if not np.isfinite(vectors[row]).all()]


def invalid_output() -> ModelOutputInvalid:
    """The error of an item whose vector is not finite."""
    return ModelOutputInvalid("the model answered with NaN or infinity for this item")

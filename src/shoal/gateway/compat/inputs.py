"""What other APIs take as input: a text, texts, token ids, or lists of token ids."""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.errors import InvalidRequest
from shoal.gateway.body import KINDS, LIST, NUMBER, TEXT

_IDS: dict[str, Any] = {"type": "array", "items": {"type": "integer", "minimum": 0}}
INPUT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {**_IDS, "minItems": 1},
        {"type": "array", "items": _IDS, "minItems": 1},
    ]
}
_raws = msgspec.json.Decoder(list[msgspec.Raw])


def inputs(raw: msgspec.Raw, name: str) -> list[msgspec.Raw]:
    """The items of a JSON value, each a string or a list of token ids; `name` is its field.

    Raises:
        InvalidRequest: it is something else, or its items are not alike.
    """
    kinds = KINDS["json"]
    whole = kinds[memoryview(raw)[0]]
    if whole is TEXT:
        return [raw]
    if whole is not LIST:
        raise InvalidRequest(
            f"{name} must be a string, a list of strings or token ids; it is {whole}", param=name
        )
    items = _raws.decode(raw)
    found = [kinds[memoryview(item)[0]] for item in items]
    if found and found[0] is NUMBER:
        _alike(found, NUMBER, name)
        return [raw]
    if found:
        _alike(found, found[0] if found[0] in (TEXT, LIST) else TEXT, name)
    return items


def _alike(found: list[str], kind: str, name: str) -> None:
    for position, other in enumerate(found):
        if other is not kind:
            where = f"{name}[{position}]"
            raise InvalidRequest(
                f"{where} must be {kind}, as all inputs are alike; it is {other}", param=where
            )

"""Bodies to request structs and item spans: a body is walked, its items are never decoded.

Decides which bodies are malformed and says where. `msgspec.Raw` gives the bytes of each item in
either format; an item's first byte tells its type, and that is all that is looked at here.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import orjson

from shoal.errors import InvalidItem, InvalidRequest, PayloadTooLarge
from shoal.spelling import nearest
from shoal.values import Encoding
from shoal.wire.codec import Buffer

T = TypeVar("T", bound=msgspec.Struct)

TEXT, LIST, MAP, BYTES = "a string", "a list", "a map", "bytes"
NUMBER, OTHER = "a number", "something else"

#: A broken JSON body up to this size is parsed once more, for an error with line and column.
EXPLAIN_MOST_BYTES = 1 << 20

_UNKNOWN_FIELD = re.compile(r"unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"missing required field `(.*)`", re.DOTALL)
_AT_PATH = re.compile(r" - at `(?:key in )?\$\.?(.*)`\Z", re.DOTALL)


def _json_kinds() -> list[str]:
    kinds = [OTHER] * 256
    kinds[ord('"')], kinds[ord("[")], kinds[ord("{")] = TEXT, LIST, MAP
    for byte in b"-0123456789":
        kinds[byte] = NUMBER
    return kinds


def _msgpack_kinds() -> list[str]:
    """https://github.com/msgpack/msgpack/blob/master/spec.md#overview"""
    kinds = [OTHER] * 256
    for first, last, kind in (
        (0x00, 0x7F, NUMBER),
        (0x80, 0x8F, MAP),
        (0x90, 0x9F, LIST),
        (0xA0, 0xBF, TEXT),
        (0xC4, 0xC6, BYTES),
        (0xCA, 0xD3, NUMBER),
        (0xD9, 0xDB, TEXT),
        (0xDC, 0xDD, LIST),
        (0xDE, 0xDF, MAP),
        (0xE0, 0xFF, NUMBER),
    ):
        kinds[first : last + 1] = [kind] * (last + 1 - first)
    return kinds


KINDS: dict[Encoding, list[str]] = {"json": _json_kinds(), "msgpack": _msgpack_kinds()}


class BodyDecoder:
    """Decodes the bodies of one route, in both formats, with errors that say what and where."""

    def __init__(self, struct: type[T]) -> None:
        self._struct = struct
        self._json = msgspec.json.Decoder(struct)
        self._msgpack = msgspec.msgpack.Decoder(struct)

    def decode(self, body: Buffer, encoding: Encoding) -> Any:
        """`body` as the struct. Raises `InvalidRequest`."""
        if not body:
            raise InvalidRequest("the body is empty")
        try:
            return (self._json if encoding == "json" else self._msgpack).decode(body)
        except msgspec.ValidationError as error:
            self._explain(str(error))
        except msgspec.DecodeError as error:
            raise InvalidRequest(
                f"the body is not valid {_FORMAT[encoding]}: {_syntax(body, encoding, error)}"
            ) from None
        except RecursionError:
            raise InvalidRequest("the body is nested too deeply") from None
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"the body is not valid UTF-8: {error.reason}") from None

    def convert(self, fields: dict[str, Any]) -> Any:
        """Fields of a form as the struct; numbers and the like are read. Raises `InvalidRequest`."""
        try:
            return msgspec.convert(fields, self._struct, strict=False)
        except msgspec.ValidationError as error:
            self._explain(str(error))

    def _explain(self, message: str) -> NoReturn:
        at = _AT_PATH.search(message)
        path = at[1] if at else ""
        what = message[: at.start()] if at else message
        within = f"{path}." if path else ""
        if unknown := _UNKNOWN_FIELD.search(what):
            name = f"{within}{unknown[1]}"
            hint = nearest(unknown[1], _fields_at(self._struct, path))
            raise InvalidRequest(f"unknown key '{name}'{hint}", param=name)
        if missing := _MISSING_FIELD.search(what):
            name = f"{within}{missing[1]}"
            raise InvalidRequest(f"'{name}' is missing", param=name)
        told = f"{what}{_choices(self._struct, path)}"
        raise InvalidRequest(f"{path or 'the body'}: {told}", param=path or None)


_FORMAT: dict[Encoding, str] = {"json": "JSON", "msgpack": "MessagePack"}


def _syntax(body: Buffer, encoding: Encoding, error: Exception) -> str:
    if encoding == "json" and len(body) <= EXPLAIN_MOST_BYTES:
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError as precise:
            return str(precise)
    return str(error)


def _choices(struct: type[msgspec.Struct], path: str) -> str:
    """What a field of few values may be; empty for all others."""
    hint = get_type_hints(struct).get(path)
    kinds = [kind for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal]
    values = [value for kind in kinds for value in get_args(kind)]
    return f"; use one of {', '.join(values)}" if values else ""


def _fields_at(struct: type[msgspec.Struct], path: str) -> list[str]:
    """The keys of the object at `path`, a path of plain keys."""
    for name in filter(None, path.split(".")):
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
        inner = fields.get(name)
        if not (isinstance(inner, type) and issubclass(inner, msgspec.Struct)):
            return []
        struct = inner
    return [field.encode_name for field in msgspec.structs.fields(struct)]


class ItemLimits(msgspec.Struct, frozen=True):
    """What one request may hold. `media_bytes`: of an image or audio; None: no model for these."""

    items: int
    item_bytes: int
    media_bytes: int | None = None


def checked_items(
    raws: list[msgspec.Raw], encoding: Encoding, limits: ItemLimits, name: str, *, times: int = 1
) -> list[Buffer]:
    """The bytes of each item, as views of the body; `name` is what the caller calls the list.

    `times`: each stands there so often, one behind the other, as the same view.

    Raises:
        InvalidItem: an item is of a kind that this model does not take.
        PayloadTooLarge: there are too many, or one is too long.
    """
    if not raws:
        raise InvalidRequest(f"'{name}' is empty: send at least one item", param=name)
    if (count := times * len(raws)) > limits.items:
        raise PayloadTooLarge(
            f"'{name}' has {count} items and one request may have {limits.items}: "
            f"split it into several",
            param=name,
        )
    kinds = KINDS[encoding]
    items: list[Buffer] = [memoryview(raw) for raw in raws]
    for position, item in enumerate(items):
        kind = kinds[item[0]]
        if kind is not TEXT or len(item) > limits.item_bytes:  # few are anything but short texts
            _check_item(item, kind, limits, f"{name}[{position}]")
    return items if times == 1 else [item for item in items for _ in range(times)]


def checked_item(raw: msgspec.Raw, encoding: Encoding, limits: ItemLimits, name: str) -> memoryview:
    """The bytes of one item that stands by itself. Raises as `checked_items`."""
    item = memoryview(raw)
    _check_item(item, KINDS[encoding][item[0]], limits, name)
    return item


def _check_item(item: Buffer, kind: str, limits: ItemLimits, where: str) -> None:
    media = limits.media_bytes is not None
    if kind is NUMBER or kind is OTHER or (kind is BYTES and not media):
        forms = "a string, a list of token ids or a map"
        raise InvalidItem(
            f"{where} must be {f'bytes, {forms}' if media else forms}; it is {kind}"
            f"{', and this model takes no images or audio' if kind is BYTES else ''}",
            param=where,
        )
    limit, setting = limits.item_bytes, "max_item_bytes"
    if limits.media_bytes is not None and (kind is BYTES or kind is MAP):
        limit, setting = limits.media_bytes, "max_media_bytes"
    if len(item) > limit:
        raise PayloadTooLarge(
            f"{where} has {len(item)} bytes; an item may have {limit} ({setting})", param=where
        )

"""What a caller may give as items, and how they are cut into requests of bounded size.

Knows no routes, and nothing of sending.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import msgspec

from shoal.client.images import is_image, png
from shoal.errors import ConfigError, InvalidItem, InvalidRequest

#: What one item may be; `bytes` are a file, an image or audio, for models that take those. Not named,
#: as neither library is needed: a PIL image, and a numpy array of pixels, uint8 [height, width, 3].
Given = str | Sequence[int] | bytes | Path | Any
Givens = str | bytes | Path | Sequence[Given]
#: A conversation is packed when it is looked at.
Item = str | list[int] | bytes | msgspec.Raw

#: A token id takes at most this much in MessagePack.
_TOKEN_BYTES = 5


class Limits(msgspec.Struct, frozen=True):
    """How a large input is sent.

    Attributes:
        request_items, request_bytes: most of one request; an item larger than that goes alone.
            About 16,000 tokens: seconds on a CPU, so that a request ends well within its
            timeout, and enough that the overhead of HTTP does not count.
        in_flight: most requests of one call at a time.
    """

    request_items: int = 256
    request_bytes: int = 64 * 1024
    in_flight: int = 4

    def __post_init__(self) -> None:
        for limit in msgspec.structs.astuple(self):
            if not isinstance(limit, int) or limit < 1:
                raise ConfigError(f"{self}: every limit must be a whole number, at least 1")


DEFAULT_LIMITS = Limits()


def listed(given: Givens) -> Sequence[Given]:
    """The items as a list, of one where it was given by itself. Raises `InvalidRequest` for none."""
    if isinstance(given, str | bytes | Path) or is_image(given):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, Mapping | Set):
        raise InvalidRequest(
            f"the items are of type {type(given).__name__}; a list of them, or one, is needed",
            param="items",
        )
    return given


def items_of(given: Givens) -> list[Item]:
    """The items of a call, checked.

    Raises:
        InvalidItem: one is neither a text, nor a list of token ids, nor a file or image, or is no
            valid Unicode; or a file cannot be read.
    """
    return [item_of(item, f"items[{position}]") for position, item in enumerate(listed(given))]


def query_of(given: Given) -> Item:
    """The query of a call, checked. Raises `InvalidItem`."""
    return item_of(given, "query")


def item_of(given: Given, param: str) -> Item:
    """One item, checked. Raises `InvalidItem`."""
    if isinstance(given, str):
        return _text(given, param)
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if isinstance(given, Path):
        try:
            return given.read_bytes()
        except OSError as error:
            raise InvalidItem(f"{param}: {given}: {error.strerror}", param=param) from None
    if is_image(given):
        return png(given, param)
    try:
        if not isinstance(given, Mapping | Set):
            return [operator.index(token) for token in given]
    except TypeError:
        pass
    raise InvalidItem(
        f"{param} is of type {type(given).__name__}; a text, a list of token ids, bytes, a Path or "
        "an image is needed (one list of ids goes inside a list: [[101, 102]])",
        param=param,
    )


def conversation(messages: Any, param: str) -> msgspec.Raw:
    """A conversation, packed. Raises `InvalidItem` where it cannot be, or has no messages."""
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes) or not messages:
        raise InvalidItem(
            f"{param}: a conversation is a list of messages: [{{'role': 'user', 'content': '…'}}]",
            param=param,
        )
    try:
        return msgspec.Raw(msgspec.msgpack.encode({"messages": messages}))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidItem(f"{param} cannot be sent: {error}", param=param) from None


def _text(given: str, param: str) -> str:
    try:
        given.encode()
        return str(given)  # numpy's str_ is a str that MessagePack does not take
    except UnicodeEncodeError as error:
        raise InvalidItem(
            f"{param} is not valid Unicode: a lone surrogate at character {error.start}",
            param=param,
        ) from None


def item_bytes(item: Item) -> int:
    """How much an item counts on a request, an upper bound within a few bytes."""
    if isinstance(item, str):
        return len(item) if item.isascii() else len(item.encode())
    if isinstance(item, list):
        return len(item) * _TOKEN_BYTES
    return memoryview(item).nbytes


def cut(items: Sequence[Item], limits: Limits) -> Iterator[range]:
    """Consecutive ranges of `items`, each within `limits`, or one item alone."""
    start, size = 0, 0
    for position, item in enumerate(items):
        more = item_bytes(item)
        full = position - start == limits.request_items or size + more > limits.request_bytes
        if full and position > start:
            yield range(start, position)
            start, size = position, 0
        size += more
    if start < len(items):
        yield range(start, len(items))

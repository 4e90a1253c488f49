"""How texts become `encode` requests of bounded size, and how answers become rows.

Knows the route, its MessagePack shapes and nothing of sending. Positions are the caller's: an
error about ``items[3]`` of the second request names the item as the caller counts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from numpy.typing import NDArray

from shoal.client.failures import MSGPACK, ErrorBody, of_item, reword
from shoal.client.protocol import Answered, Request
from shoal.errors import ConfigError, InvalidItem, InvalidRequest, ProtocolError, ShoalError
from shoal.values import EncodeParams
from shoal.wire.arrays import Array, from_wire

#: `bytes` are a file: an image or audio, for models that take those.
Text = str | Sequence[int] | bytes
Texts = str | bytes | Sequence[str | bytes] | Sequence[Sequence[int]]
Item = str | list[int] | bytes

#: A token id takes at most this much in MessagePack.
_TOKEN_BYTES = 5
_HEADERS = {"content-type": MSGPACK, "accept": MSGPACK}


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
        if min(self.request_items, self.request_bytes, self.in_flight) < 1:
            raise ConfigError(f"{self}: every limit must be at least 1")


DEFAULT_LIMITS = Limits()


class Row(msgspec.Struct, frozen=True):
    """The answer for one item; `vector`: [dim], a view of the response."""

    vector: NDArray[Any]
    tokens: int
    truncated: bool


def items_of(texts: Texts) -> list[Item]:
    """The items of a call, checked.

    Raises:
        InvalidItem: one is neither a text, nor a list of token ids, nor bytes, or is no valid
            Unicode.
    """
    several: Sequence[Text] = [texts] if isinstance(texts, str | bytes) else texts
    return [_item(text, position) for position, text in enumerate(several)]


def _item(text: Any, position: int) -> Item:
    param = f"items[{position}]"
    if isinstance(text, str):
        try:
            text.encode()
            return str(text)  # numpy's str_ is a str that MessagePack does not take
        except UnicodeEncodeError as error:
            raise InvalidItem(
                f"{param} is not valid Unicode: a lone surrogate at character {error.start}",
                param=param,
            ) from None
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    try:
        if not isinstance(text, dict | set):
            return [operator.index(token) for token in text]
    except TypeError:
        pass
    raise InvalidItem(
        f"{param} is of type {type(text).__name__}; a text, a list of token ids or bytes is needed "
        "(one list of ids goes inside a list: [[101, 102]])",
        param=param,
    )


def item_bytes(item: Item) -> int:
    """How much an item counts on a request, an upper bound within a few bytes."""
    if isinstance(item, str):
        return len(item) if item.isascii() else len(item.encode())
    if isinstance(item, bytes):
        return len(item)
    return len(item) * _TOKEN_BYTES


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


class _ArrayBody(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data: memoryview


class _ItemBody(msgspec.Struct, frozen=True):
    dense: _ArrayBody | None = None
    tokens: int = 0
    truncated: bool = False
    error: ErrorBody | None = None


class _Body(msgspec.Struct, frozen=True):
    items: list[_ItemBody]


_decoder = msgspec.msgpack.Decoder(_Body)


class EncodeQuestion:
    """Asks for the vectors of one range of items; asks again for those with retryable errors."""

    def __init__(
        self,
        model: str,
        items: Sequence[Item],
        part: range,
        params: EncodeParams,
        headers: Mapping[str, str],
    ) -> None:
        if not model:
            raise InvalidRequest("the model's name is empty", param="model")
        self._path = f"/v1/encode/{quote(model, safe='/')}"
        self._params = {k: v for k, v in msgspec.structs.asdict(params).items() if v is not None}
        self._headers = {**_HEADERS, **headers}
        self._items = items
        self._open = list(part)
        self._rows: dict[int, Row | ShoalError] = {}

    def request(self) -> Request:
        items = [self._items[position] for position in self._open]
        body = msgspec.msgpack.encode({"items": items, "params": self._params})
        return Request("POST", self._path, body, self._headers)

    def read(self, answer: Answered) -> ShoalError | None:
        bodies = _decode(answer)
        if len(bodies) != len(self._open):
            raise ProtocolError(
                f"{len(self._open)} items were asked for but {len(bodies)} were answered"
            )
        for position, body in zip(self._open, bodies, strict=True):
            self._rows[position] = self._row(position, body)
        failed = {p: row for p in self._open if isinstance(row := self._rows[p], ShoalError)}
        self._open = [position for position, error in failed.items() if error.retryable]
        return failed[self._open[0]] if self._open else None

    def result(self) -> dict[int, Row | ShoalError]:
        """Position in the caller's input -> its row, or why it has none."""
        return self._rows

    def give_up(self, error: ShoalError) -> dict[int, Row | ShoalError]:
        if self._rows:
            return self._rows
        param = error.param and self._renumbered(error.param)
        reword(error, self._renumbered(error.message), param)
        raise error

    def _row(self, position: int, body: _ItemBody) -> Row | ShoalError:
        if body.error is not None:
            return self._item_error(position, body.error)
        if body.dense is None or len(body.dense.shape) != 1:
            raise ProtocolError("an item of the answer has neither a vector nor an error")
        array = Array(body.dense.dtype, body.dense.shape, body.dense.data)
        return Row(from_wire(array), body.tokens, body.truncated)

    def _item_error(self, position: int, body: ErrorBody) -> ShoalError:
        error, name = of_item(body), f"items[{position}]"
        message = self._renumbered(error.message)
        reword(error, message if name in message else f"{name}: {message}", name)
        return error

    def _renumbered(self, text: str) -> str:
        def position(match: re.Match[str]) -> str:
            index = int(match[1])
            return f"items[{self._open[index] if index < len(self._open) else index}]"

        return re.sub(r"\bitems\[(\d+)\]", position, text)


def _decode(answer: Answered) -> list[_ItemBody]:
    content_type = answer.headers.get("content-type", "none")
    if MSGPACK not in content_type:
        raise ProtocolError(f"the answer is of type {content_type}, not {MSGPACK}")
    try:
        return _decoder.decode(answer.body).items
    except (msgspec.MsgspecError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"the answer is malformed: {error}") from None

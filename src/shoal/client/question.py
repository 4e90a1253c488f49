"""A range of items as one request, and its answer item by item; the same for every task.

Knows the native routes' MessagePack and nothing of sending. Positions are the caller's: an
error about ``items[3]`` of the second request names the item as the caller counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from shoal.client.failures import MSGPACK, ErrorBody, of_item, reword
from shoal.client.items import Item
from shoal.client.protocol import Answered, Request
from shoal.errors import InvalidRequest, PayloadTooLarge, ProtocolError, ShoalError
from shoal.values import Task

T = TypeVar("T")

_HEADERS = {"content-type": MSGPACK, "accept": MSGPACK}


class ItemBody(msgspec.Struct, frozen=True):
    """What every task's answer has of an item."""

    tokens: int = 0
    truncated: bool = False
    error: ErrorBody | None = None


class Found(msgspec.Struct, Generic[T], frozen=True):
    """The answer for one item; arrays in `value` are views of the response."""

    value: T
    tokens: int
    truncated: bool


#: Position in the caller's input -> its answer, or why it has none.
Answers = dict[int, Found[T] | ShoalError]


class Asked(msgspec.Struct, Generic[T], frozen=True):
    """What a call asks of each of its items.

    Attributes:
        fields: of the body, beside the items.
        decode: an answer's body, as a struct whose `items` are `ItemBody`s.
        read: what one of these says. Raises `ProtocolError`.
    """

    task: Task
    model: str
    fields: dict[str, Any]
    headers: Mapping[str, str]
    decode: Callable[[bytes], Any]
    read: Callable[[Any], T]

    @property
    def path(self) -> str:
        return f"/v1/{self.task}/{spelled(self.model)}"

    def packed(self, fields: dict[str, Any]) -> bytes:
        """A body. Raises `InvalidRequest` for options that cannot be sent."""
        try:
            return msgspec.msgpack.encode(fields)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            # Items were looked at before: it is a lone surrogate, or a schema that holds itself.
            raise InvalidRequest(f"the options cannot be sent: {error}", param="params") from None


def spelled(model: str) -> str:
    """A model's name as a path has it. Raises `InvalidRequest` for what is none."""
    if not isinstance(model, str) or not model:
        raise InvalidRequest(f"model is {model!r}; a model's name is needed", param="model")
    try:
        return quote(model, safe="/")
    except UnicodeEncodeError:
        raise InvalidRequest("the model's name is not valid Unicode", param="model") from None


class ItemsQuestion(Generic[T]):
    """Asks about one range of items; asks again for those with retryable errors.

    `strict`: once one item has an error, nothing more is asked.
    """

    def __init__(
        self, asked: Asked[T], items: Sequence[Item], part: range, *, strict: bool = False
    ) -> None:
        self._asked = asked
        self._strict = strict
        self._path = asked.path
        self._items = items
        self._open = list(part)
        self._found: Answers[T] = {}

    def request(self) -> Request:
        items = [self._items[position] for position in self._open]
        body = self._asked.packed({**self._asked.fields, "items": items})
        return Request("POST", self._path, body, {**_HEADERS, **self._asked.headers})

    def read(self, answer: Answered) -> ShoalError | None:
        found = self._answers(answer)
        self._found |= found
        failed = {p: it for p, it in found.items() if isinstance(it, ShoalError)}
        self._open = [position for position, error in failed.items() if error.retryable]
        return failed[self._open[0]] if self._open else None

    def refused(self, error: ShoalError, answer: Answered) -> bool:
        """A refusal for the sake of an item costs the others nothing, if `error` says which it is."""
        position = self._at_fault(error)
        if position is None:
            return False
        name, message = f"items[{position}]", self._renumbered(error.message)
        param = self._renumbered(error.param or "items[0]")
        try:
            self.read(answer)  # where all items failed it tells of each
        except ProtocolError:
            if error.retryable:
                return False
            self._open.remove(position)
        reword(error, message if name in message else f"{name}: {message}", param)
        self._found[position] = error
        return bool(self._open) and not self._strict

    def _at_fault(self, error: ShoalError) -> int | None:
        """The item that a request was refused for; one that is too large may be all there is of it."""
        named = re.match(r"items\[(\d+)\]", error.param or "")
        alone = len(self._open) == 1 and isinstance(error, PayloadTooLarge)
        index = int(named[1]) if named else 0
        return self._open[index] if (named or alone) and index < len(self._open) else None

    def _answers(self, answer: Answered) -> Answers[T]:
        bodies = self._decode(answer)
        if len(bodies) != len(self._open):
            raise ProtocolError(
                f"{len(self._open)} items were asked for but {len(bodies)} were answered"
            )
        return {p: self._of(p, body) for p, body in zip(self._open, bodies, strict=True)}

    def result(self) -> Answers[T]:
        """What is known of each item."""
        return self._found

    def give_up(self, error: ShoalError) -> Answers[T]:
        if self._found:
            return {**dict.fromkeys(self._open, error), **self._found}
        param = error.param and self._renumbered(error.param)
        reword(error, self._renumbered(error.message), param)
        raise error

    def _decode(self, answer: Answered) -> list[ItemBody]:
        content_type = answer.headers.get("content-type", "none")
        if MSGPACK not in content_type:
            raise ProtocolError(f"the answer is of type {content_type}, not {MSGPACK}")
        try:
            items: list[ItemBody] = self._asked.decode(answer.body).items
        except (msgspec.MsgspecError, RecursionError, OverflowError) as error:
            raise ProtocolError(f"the answer is malformed: {error}") from None
        return items

    def _of(self, position: int, body: ItemBody) -> Found[T] | ShoalError:
        if body.error is not None:
            return self._item_error(position, body.error)
        return Found(self._asked.read(body), body.tokens, body.truncated)

    def _item_error(self, position: int, body: ErrorBody) -> ShoalError:
        error, name = of_item(body), f"items[{position}]"
        message = self._renumbered(error.message)
        param = name if body.param is None or body.param.startswith("items[") else body.param
        reword(error, message if name in message else f"{name}: {message}", param)
        return error

    def _renumbered(self, text: str) -> str:
        def position(match: re.Match[str]) -> str:
            index = int(match[1])
            return f"items[{self._open[index] if index < len(self._open) else index}]"

        return re.sub(r"\bitems\[(\d+)\]", position, text)

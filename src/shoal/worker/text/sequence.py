"""One text as one sequence: what stands around it, and how much of it stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

import msgspec
import numpy as np

from shoal.errors import InvalidItem, ShoalError, TooManyTokens
from shoal.tasks.encode import Item, Media
from shoal.tasks.generate.conversation import Conversation
from shoal.worker.prepared import Finish, Prepared

T = TypeVar("T")


class Frame(msgspec.Struct, frozen=True):
    """Ids before and after a text, and the tokens of the whole."""

    before: list[int]
    after: list[int]
    limit: int

    @property
    def room(self) -> int:
        """Tokens of the text."""
        return self.limit - len(self.before) - len(self.after)

    def fit(self, content: list[int], *, truncate: bool, finish: Finish | None = None) -> Prepared:
        """The sequence of a text. Raises `TooManyTokens` where it is too long and must not be cut."""
        room = self.room
        truncated = len(content) > room
        if truncated and not truncate:
            count = len(content) + len(self.before) + len(self.after)
            # Of a long text no more was looked at than tells that it is too long.
            raise too_many(count if len(content) > room + 1 else None, self.limit)
        return Prepared(
            ids=(ids := array_of([*self.before, *content[:room], *self.after])),
            length=len(ids),
            truncated=truncated,
            finish=finish,
        )


def array_of(ids: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Raises `InvalidItem` where there are none."""
    if not ids:
        raise InvalidItem("this item is empty and the model has no special tokens")
    return np.array(ids, dtype=np.int32)


def too_many(count: int | None, limit: int) -> TooManyTokens:
    """The error of an item that must not be cut; `count`: its tokens, where they were counted."""
    said = f"more than {limit}" if count is None else count
    return TooManyTokens(
        f"this item has {said} tokens but the model takes at most {limit}; "
        "shorten it or leave truncation on"
    )


def each(
    items: list[Item],
    contents: Iterator[T],
    made: Callable[[T], Prepared],
    content_of: Callable[[list[int] | Media], T],
) -> list[Prepared | ShoalError]:
    """What is made of each item, or its error; `contents`: of those that are texts."""
    out: list[Prepared | ShoalError] = []
    for item in items:
        try:
            if isinstance(item, Conversation):
                raise InvalidItem("this task takes text, no conversations")
            out.append(made(next(contents) if isinstance(item, str) else content_of(item)))
        except ShoalError as error:
            out.append(error)
    return out


def texts_in(items: list[Item]) -> list[str]:
    """Those that are texts."""
    return [item for item in items if isinstance(item, str)]


def text_only(item: list[int] | Media) -> NoReturn:
    """Raises `InvalidItem`: a task that needs the text itself got something else."""
    if isinstance(item, Media):
        raise InvalidItem("this model takes text, no images or audio")
    raise InvalidItem("this task takes text, not token ids")

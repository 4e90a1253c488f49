"""Items of a streamed response, from their first event to their last.

Each is begun when there is something of it, goes on, and is told whole at its end, before the next begins.
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from shoal.gateway.compat.chat_answers import ContentLogprob
from shoal.gateway.compat.responses.answers import (
    Asked,
    FunctionCall,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Status,
)

#: An event of a type, with its fields.
Tell = Callable[..., bytes]


class Begun(Protocol):
    """An item under way."""

    def begin(self) -> list[bytes]:
        """There is something of it."""
        ...

    def more(self, text: str, told: list[ContentLogprob]) -> bytes:
        """It goes on; `told` of tokens, where they are told with it."""
        ...

    def end(self, status: Status) -> tuple[list[bytes], OutputItem]:
        """It ended, as this."""
        ...


class _Text:
    """What all have in common: they grow, and stand at a place of the output."""

    def __init__(self, tell: Tell, asked: Asked, id_: str, index: int) -> None:
        self._tell = tell
        self._asked = asked
        self._id = id_
        self._index = index
        self._parts: list[str] = []

    @property
    def _text(self) -> str:
        return "".join(self._parts)

    def _added(self, item: OutputItem) -> bytes:
        return self._tell("response.output_item.added", item=item, output_index=self._index)

    def _done(self, item: OutputItem) -> bytes:
        return self._tell("response.output_item.done", item=item, output_index=self._index)

    def _of(self, type_: str, **fields: Any) -> bytes:
        """An event of what the item holds."""
        return self._tell(type_, item_id=self._id, output_index=self._index, **fields)

    def _part(self, type_: str, **fields: Any) -> bytes:
        """An event of its one part."""
        return self._of(type_, content_index=0, **fields)


class BegunMessage(_Text):
    """`number`: of the messages before it."""

    def __init__(self, tell: Tell, asked: Asked, index: int, number: int) -> None:
        super().__init__(tell, asked, asked.id("msg", number), index)
        self._number = number
        self._told: list[ContentLogprob] = []

    def begin(self) -> list[bytes]:
        message = OutputMessage(self._id, [], "in_progress")
        part = OutputText("")
        return [self._added(message), self._part("response.content_part.added", part=part)]

    def more(self, text: str, told: list[ContentLogprob]) -> bytes:
        self._parts.append(text)
        self._told += told
        return self._part("response.output_text.delta", delta=text, logprobs=told)

    def end(self, status: Status) -> tuple[list[bytes], OutputItem]:
        item = self._asked.message(self._number, self._text, self._told, status)
        (part,) = item.content
        return [
            self._part("response.output_text.done", text=part.text, logprobs=part.logprobs),
            self._part("response.content_part.done", part=part),
            self._done(item),
        ], item


class BegunReasoning(_Text):
    """What is thought before anything is said."""

    def __init__(self, tell: Tell, asked: Asked, index: int) -> None:
        super().__init__(tell, asked, asked.id("rs"), index)

    def begin(self) -> list[bytes]:
        item, part = ReasoningItem(self._id, [], "in_progress"), ReasoningText("")
        return [self._added(item), self._part("response.content_part.added", part=part)]

    def more(self, text: str, told: list[ContentLogprob]) -> bytes:
        self._parts.append(text)
        return self._part("response.reasoning_text.delta", delta=text)

    def end(self, status: Status) -> tuple[list[bytes], OutputItem]:
        item = self._asked.reasoning(self._text, status)
        (part,) = item.content
        return [
            self._part("response.reasoning_text.done", text=part.text),
            self._part("response.content_part.done", part=part),
            self._done(item),
        ], item


class BegunCall(_Text):
    """`number`: of the calls before it."""

    def __init__(self, tell: Tell, asked: Asked, index: int, number: int, name: str) -> None:
        super().__init__(tell, asked, asked.id("fc", number), index)
        self._number = number
        self._name = name

    def begin(self) -> list[bytes]:
        return [self._added(self._item("in_progress"))]

    def more(self, text: str, told: list[ContentLogprob]) -> bytes:
        self._parts.append(text)
        return self._of("response.function_call_arguments.delta", delta=text)

    def end(self, status: Status) -> tuple[list[bytes], OutputItem]:
        item = self._item(status)
        kind = "response.function_call_arguments.done"
        return [self._of(kind, arguments=item.arguments, name=item.name), self._done(item)], item

    def _item(self, status: Status) -> FunctionCall:
        return self._asked.call(self._number, self._name, self._text, status)

"""The events of a streamed response, numbered.

Decides which item what comes belongs to: they follow one another, and none begins before the one before ended.
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from typing import Any, assert_never

from shoal.errors import ErrorInfo
from shoal.gateway.compat.chat_answers import ContentLogprob, content_logprob
from shoal.gateway.compat.responses.answers import (
    Asked,
    OutputItem,
    OutputMessage,
    ResponseObject,
    Status,
    status_of,
)
from shoal.gateway.compat.responses.begun import Begun, BegunCall, BegunMessage, BegunReasoning
from shoal.gateway.counts import counts_of
from shoal.gateway.feed import Growth
from shoal.gateway.streaming import event
from shoal.tasks.generate.answer import Called, Delta, Said, Thought
from shoal.wire.objects import Generation


class ResponseEvents:
    """What came of one response, and the item that is under way."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._number = -1
        self._output: list[OutputItem] = []
        self._begun: Begun | None = None
        self._told: list[ContentLogprob] = []  # of tokens that no message told yet
        self._ended: ResponseObject | None = None

    def begin(self) -> bytes:
        response = self._asked.response("in_progress")
        kinds = ("response.created", "response.in_progress")
        return b"".join([self._event(kind, response=response) for kind in kinds])

    def grown(self, growth: Growth) -> bytes:
        self._told += [content_logprob(token) for token in growth.told]
        events = [told for delta in growth.deltas for told in self._delta(delta)]
        if self._told and isinstance(self._begun, BegunMessage):
            events += self._more("")
        if growth.answer is not None and growth.whole is not None:
            events += self._last(growth.whole)
            counts = counts_of(growth.answer)
            self._ended = self._asked.ended(growth.whole, counts, self._output)
        return b"".join(events)

    def end(self) -> bytes:
        assert self._ended is not None, "its item ended"
        return self._event(f"response.{self._ended.status}", response=self._ended)

    def failed(self, error: ErrorInfo) -> bytes:
        said = {"code": error.code, "message": error.message, "param": error.param}
        response = self._asked.failed(error)
        return self._event("error", **said) + self._event("response.failed", response=response)

    # --- items, one after the other ---------------------------------------------------------------

    def _delta(self, delta: Delta) -> list[bytes]:
        match delta:
            case Said(text):
                begun = [] if isinstance(self._begun, BegunMessage) else self._message()
            case Thought(text):
                begun = [] if isinstance(self._begun, BegunReasoning) else self._reasoning()
            case Called(index, name, text):
                if not self._asked.tells(index):
                    return []
                begun = [] if name is None else self._call(index, name)
            case _:
                assert_never(delta)
        return begun + self._more(text)

    def _last(self, whole: Generation) -> list[bytes]:
        """Who neither said nor called anything said nothing, which is a message."""
        nothing = self._begun is None or isinstance(self._begun, BegunReasoning)
        events = self._message() if nothing else []
        if self._told and isinstance(self._begun, BegunMessage):
            events += self._more("")
        return events + self._end(status_of(whole))

    def _message(self) -> list[bytes]:
        ended = self._end("completed")
        number = sum(isinstance(item, OutputMessage) for item in self._output)
        return ended + self._begin(BegunMessage(self._event, self._asked, self._index, number))

    def _reasoning(self) -> list[bytes]:
        ended = self._end("completed")
        return ended + self._begin(BegunReasoning(self._event, self._asked, self._index))

    def _call(self, number: int, name: str) -> list[bytes]:
        ended = self._end("completed")
        call = BegunCall(self._event, self._asked, self._index, number, name)
        return ended + self._begin(call)

    @property
    def _index(self) -> int:
        return len(self._output)

    def _begin(self, item: Begun) -> list[bytes]:
        self._begun = item
        return item.begin()

    def _more(self, text: str) -> list[bytes]:
        assert self._begun is not None, "it was begun"
        told: list[ContentLogprob] = []
        if isinstance(self._begun, BegunMessage):
            told, self._told = self._told, []
        return [self._begun.more(text, told)]

    def _end(self, status: Status) -> list[bytes]:
        """End what is under way, if anything is."""
        if self._begun is None:
            return []
        events, item = self._begun.end(status)
        self._output.append(item)
        self._begun = None
        return events

    def _event(self, type_: str, **fields: Any) -> bytes:
        self._number += 1
        return event({"type": type_, "sequence_number": self._number, **fields}, type_)

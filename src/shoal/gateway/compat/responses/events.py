"""The events of a streamed response, numbered.

https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.errors import ErrorInfo
from shoal.gateway.compat.chat_answers import content_logprob
from shoal.gateway.compat.responses.answers import (
    Asked,
    FunctionCall,
    OutputItem,
    OutputMessage,
    OutputText,
    ResponseObject,
)
from shoal.gateway.counts import counts_of
from shoal.gateway.feed import Growth
from shoal.gateway.streaming import event
from shoal.wire.objects import Generation


class ResponseEvents:
    """An item begins when there is something of it, and each is told whole at its end."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._number = -1
        self._output: list[OutputItem] = []
        self._begun = False
        self._ended: ResponseObject | None = None

    def begin(self) -> bytes:
        response = self._asked.response("in_progress")
        return b"".join(
            [
                self._event(f"response.{kind}", response=response)
                for kind in ("created", "in_progress")
            ]
        )

    def grown(self, growth: Growth) -> bytes:
        events = []
        if growth.text or growth.told:
            events += self._said(growth)
        if growth.answer is not None and growth.whole is not None:
            events += self._items(growth.whole)
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

    # --- the message --------------------------------------------------------------------------

    def _said(self, growth: Growth) -> list[bytes]:
        events = [] if self._begun else self._message_begins()
        told = [content_logprob(token) for token in growth.told]
        place = self._place()
        events.append(
            self._event("response.output_text.delta", delta=growth.text, logprobs=told, **place)
        )
        return events

    def _message_begins(self) -> list[bytes]:
        self._begun = True
        message = OutputMessage(self._asked.id("msg"), [], "in_progress")
        added = self._event("response.output_item.added", item=message, output_index=0)
        part = OutputText("")
        return [added, self._event("response.content_part.added", part=part, **self._place())]

    def _message_ends(self, whole: Generation) -> list[bytes]:
        message = self._asked.message(whole)
        (part,) = message.content
        self._output.append(message)
        done = {"text": part.text, "logprobs": part.logprobs, **self._place()}
        return [
            self._event("response.output_text.done", **done),
            self._event("response.content_part.done", part=part, **self._place()),
            self._event("response.output_item.done", item=message, output_index=0),
        ]

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._asked.id("msg"), "output_index": 0, "content_index": 0}

    # --- what is known at the end alone -------------------------------------------------------

    def _items(self, whole: Generation) -> list[bytes]:
        calls, thought = self._asked.calls(whole), self._asked.reasoning(whole)
        events = []
        if not self._begun and not calls:
            events += self._message_begins()
        if self._begun:
            events += self._message_ends(whole)
        if thought is not None:
            events += self._item(thought)
        for call in calls:
            events += self._item(call)
        return events

    def _item(self, item: OutputItem) -> list[bytes]:
        index = len(self._output)
        self._output.append(item)
        begun = msgspec.structs.replace(item, status="in_progress")
        if isinstance(begun, FunctionCall):
            begun = msgspec.structs.replace(begun, arguments="")
        events = [self._event("response.output_item.added", item=begun, output_index=index)]
        if isinstance(item, FunctionCall):
            kind, place = (
                "response.function_call_arguments",
                {"item_id": item.id, "output_index": index},
            )
            events += [
                self._event(f"{kind}.delta", delta=item.arguments, **place),
                self._event(f"{kind}.done", arguments=item.arguments, name=item.name, **place),
            ]
        return [*events, self._event("response.output_item.done", item=item, output_index=index)]

    def _event(self, type_: str, **fields: Any) -> bytes:
        self._number += 1
        return event({"type": type_, "sequence_number": self._number, **fields}, type_)

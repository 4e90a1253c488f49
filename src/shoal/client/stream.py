"""One text as it is generated: bytes of a stream of events in, its pieces and at last the whole out.

Sans I/O. https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from shoal.client.failures import MSGPACK, ErrorBody, of_item
from shoal.client.items import Item
from shoal.client.protocol import Answered, Request
from shoal.client.question import Asked
from shoal.errors import ProtocolError, ShoalError, Unavailable
from shoal.wire.objects import Alternative, Generation, TokenLogprob


class StreamQuestion:
    """Asks for a stream; what comes of it is read elsewhere."""

    def __init__(self, asked: Asked[Generation], item: Item) -> None:
        self._asked = asked
        self._item = item

    def request(self) -> Request:
        fields = {**self._asked.fields, "items": [self._item], "stream": True}
        headers = {"content-type": MSGPACK, **self._asked.headers}
        return Request("POST", self._asked.path, self._asked.packed(fields), headers)

    def read(self, answer: Answered) -> ShoalError | None:
        raise AssertionError("a stream is not read as a whole")

    def refused(self, error: ShoalError, answer: Answered) -> bool:
        return False

    def result(self) -> None:
        return None

    def give_up(self, error: ShoalError) -> None:
        raise error


class Reader:
    """Takes what came; `whole` is there once the stream has ended well."""

    def __init__(self) -> None:
        self._rest = b""
        self._texts: list[str] = []
        self._told: list[TokenLogprob] = []
        self._end: Generation | None = None
        self._complete = False

    def add(self, data: bytes) -> Iterator[str]:
        """The pieces of text in it, each before what comes after it is looked at.

        Raises:
            ProtocolError: this is no stream of a gateway's.
            ShoalError: the stream says that it failed.
        """
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            if text := self._event(event):
                self._texts.append(text)
                yield text

    @property
    def whole(self) -> Generation:
        """Raises `Unavailable` where the stream broke off before its end."""
        if self._end is None or not self._complete:
            raise Unavailable("the stream broke off before its end")
        text, told = "".join(self._texts), self._told or None
        return msgspec.structs.replace(self._end, text=text, logprobs=told)

    def _event(self, event: bytes) -> str:
        data = b"\n".join(
            line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")
        )
        if not data:
            return ""  # a comment
        try:
            said: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
            if (error := said.get("error")) is not None:
                raise of_item(msgspec.convert(error, ErrorBody))
            self._complete = self._complete or "usage" in said
            return self._item(said) if "item" in said else ""
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise ProtocolError(f"an event of the stream is malformed: {error}") from None

    def _item(self, said: dict[str, Any]) -> str:
        self._told += [_token(token) for token in said.pop("logprobs", [])]
        if "finish" in said:
            self._end = msgspec.convert(said, Generation)
        text: str = said.get("text", "")
        return text


def _token(said: dict[str, Any]) -> TokenLogprob:
    """One whose bytes are numbers, as JSON has them."""
    top = [Alternative(t["text"], bytes(t["bytes"]), t["logprob"]) for t in said.get("top", [])]
    return TokenLogprob(said["text"], bytes(said["bytes"]), said["logprob"], top)

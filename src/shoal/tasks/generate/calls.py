"""Calls of tools in a text, as models write them, told apart from it. Pure.

What looks like a call and is none stays text, whole.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

import msgspec

from shoal.tasks.generate.answer import Whole
from shoal.tasks.generate.stops import kept_back
from shoal.wire.objects import ToolCall

#: Around a call, as Hermes 2 Pro and Qwen write it: https://github.com/NousResearch/Hermes-Function-Calling
OPEN, CLOSE = "<tool_call>", "</tool_call>"


class _Written(msgspec.Struct):
    """Of a call; what Llama 3 calls `parameters` others call `arguments`."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


_decoder = msgspec.json.Decoder(_Written)


def read_call(text: str) -> ToolCall | None:
    """The call that a JSON object is; None if it is none."""
    try:
        written = _decoder.decode(text)
        raw = bytes(written.arguments) or bytes(written.parameters) or b"{}"
        arguments = raw.decode()
        value = msgspec.json.decode(arguments)
        if isinstance(value, str):  # JSON in a text in JSON
            arguments, value = value, msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return ToolCall(written.name, arguments) if isinstance(value, dict) else None


class TaggedCalls:
    """Text with calls in tags (`OPEN`, `CLOSE`), any number; blanks before a call are held back."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._held = ""

    def feed(self, text: str) -> str:
        sure = "".join(self._sure(text))
        self._text.append(sure)
        return sure

    def end(self, text: str, *, complete: bool) -> Whole:
        self.feed(text)
        before, tag, body = self._held.partition(OPEN)
        # Some end where the tag should be closed.
        if complete and tag and (call := read_call(body)) is not None:
            self._calls.append(call)
            self._held = before
        rest = self._held.rstrip() if self._calls else self._held
        return Whole("".join([*self._text, rest]), calls=self._calls)

    def _sure(self, text: str) -> Iterator[str]:
        self._held += text
        while (start := self._held.find(OPEN)) >= 0:
            end = self._held.find(CLOSE, start)
            if end < 0:
                yield self._before(start)
                return
            call = read_call(self._held[start + len(OPEN) : end])
            end += len(CLOSE)
            if call is None:
                yield self._held[:end]
            else:
                self._calls.append(call)
                yield self._held[:start].rstrip()
            self._held = self._held[end:]
        held = kept_back(self._held, (OPEN,))
        yield self._before(len(self._held) - held)

    def _before(self, mark: int) -> str:
        """What comes before this place, but for blanks."""
        sure = self._held[:mark].rstrip()
        self._held = self._held[len(sure) :]
        return sure


class BareCalls:
    """A text that is nothing but calls: a JSON object, several, or a list of them (Llama 3).

    A text that begins as one is held back to its end.
    """

    def __init__(self, names: Collection[str]) -> None:
        """`names`: of what may be called; other objects are answers."""
        self._names = names
        self._text: list[str] = []
        self._held = ""
        self._is_text = False

    def feed(self, text: str) -> str:
        if not self._is_text:
            text, self._held = self._held + text, ""
            begun = text.lstrip()
            if not begun or begun[0] in "{[":
                self._held = text
                return ""
            self._is_text = True
        self._text.append(text)
        return text

    def end(self, text: str, *, complete: bool) -> Whole:
        self.feed(text)
        calls = self._read(self._held) if complete and self._held.strip() else None
        if calls:
            return Whole("", calls=calls)
        return Whole("".join([*self._text, self._held]))

    def _read(self, text: str) -> list[ToolCall] | None:
        """The calls of which all of the text consists."""
        calls = [read_call(part) for part in _objects(text)]
        known = [call for call in calls if call is not None and call.name in self._names]
        return known if len(known) == len(calls) else None


def _objects(text: str) -> Iterator[str]:
    """The JSON objects that stand one after the other; of anything else the rest."""
    scanner = json.JSONDecoder()
    rest = text.strip()
    if rest.startswith("["):
        try:
            yield from (bytes(raw).decode() for raw in _list_decoder.decode(rest))
        except (msgspec.DecodeError, RecursionError):
            yield rest
        return
    while rest:
        try:
            _, end = scanner.raw_decode(rest)
        except (ValueError, RecursionError):
            end = len(rest)
        yield rest[:end]
        rest = rest[end:].lstrip("; \n\t,")


_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])

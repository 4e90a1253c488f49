"""Calls of tools in a text, as models write them, told apart from it as it comes. Pure.

A call is told from where its arguments begin, and from there on it is one, whatever comes: of arguments
that are no JSON, or were cut off, all that the model wrote is told. What breaks off or is none before
that stays text, whole.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Literal, NamedTuple, assert_never

import msgspec

from shoal.tasks.generate.answer import Called, Delta, said
from shoal.tasks.generate.brackets import Brackets
from shoal.wire.objects import ToolCall

#: A call up to its arguments. Longer blanks and names are waited for with the whole, so that no text is
#: searched over and over as it grows.
_HEAD = re.compile(
    r'\s{0,99}\{\s{0,99}"name"\s{0,99}:\s{0,99}("(?:[^"\\\x00-\x1f]|\\.){0,256}")\s{0,99},'
    r'\s{0,99}"(?:arguments|parameters)"\s{0,99}:\s{0,99}(?=\{)'
)


At = Literal["text", "head", "arguments", "members", "between"]


class _Written(msgspec.Struct):
    """Of a call; what Llama 3 calls `parameters` others call `arguments`."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


class Head(NamedTuple):
    """The name of a call, and where its arguments begin."""

    name: str
    end: int


_decoder, _name = msgspec.json.Decoder(_Written), msgspec.json.Decoder(str)


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


def read_head(text: str) -> Head | None:
    """A call whose arguments begin; None if none do, or not yet."""
    found = _HEAD.match(text)
    try:
        return None if found is None else Head(_name.decode(found[1]), found.end())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Calls(ABC):
    """What all forms have in common: text is held until it is clear what it is, and calls are told as they come.

    Attributes:
        _at: what stands next: `text`; a `head`, up to the arguments; `arguments`; `members`, which a
            call has behind them; what is `between` calls.
    """

    def __init__(self, at: At, mark: str) -> None:
        """`mark`: what ends a call before its brackets do."""
        self._at = at
        self._mark = mark
        self._held = ""
        self._told: list[Delta] = []
        self._calls = 0
        self._brackets = Brackets()

    def feed(self, text: str) -> list[Delta]:
        """As `Answer.feed`."""
        self._held += text
        while self._held and self._step():
            pass
        return self._taken()

    def end(self, text: str, *, complete: bool) -> list[Delta]:
        """As `Answer.end`."""
        told = self.feed(text)
        self._rest(complete=complete)
        return told + self._taken()

    def _taken(self) -> list[Delta]:
        told, self._told = self._told, []
        return told

    def _step(self) -> bool:
        """Read some of what is held; whether there may be more to read now."""
        match self._at:
            case "text":
                return self._text()
            case "head":
                return self._head()
            case "arguments":
                return self._arguments()
            case "members":
                return self._members()
            case "between":
                return self._between()
            case _:
                assert_never(self._at)

    @abstractmethod
    def _text(self) -> bool:
        """Outside of calls."""

    @abstractmethod
    def _head(self) -> bool:
        """What may become a call."""

    @abstractmethod
    def _between(self) -> bool:
        """Behind a call, or before the first."""

    @abstractmethod
    def _rest(self, *, complete: bool) -> None:
        """Tell what is still held at the end."""

    def _call(self, call: ToolCall) -> None:
        self._told.append(Called(self._calls, call.name, call.arguments))
        self._calls += 1

    def _say(self, text: str) -> None:
        self._told += said(text)

    def _begin(self, head: Head) -> bool:
        """A call begins: what is held are its arguments, from now on."""
        self._call(ToolCall(head.name, ""))
        self._held = self._held[head.end :]
        self._at, self._brackets = "arguments", Brackets(self._mark)
        return True

    def _arguments(self) -> bool:
        end, how = self._brackets.feed(self._held)
        if end:
            self._told.append(Called(self._calls - 1, None, self._held[:end]))
        self._held = self._held[end:]
        if how == "closed":
            self._at, self._brackets = "members", Brackets(self._mark, depth=1)
        elif how == "marked":
            self._at = "between"
        return how != "open"

    def _members(self) -> bool:
        """They are passed over."""
        end, how = self._brackets.feed(self._held)
        self._held = self._held[end:]
        if how != "open":
            self._at = "between"
        return how != "open"

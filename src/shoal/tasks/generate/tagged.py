"""Calls of tools in tags, in a text that goes on around them. Pure."""

from __future__ import annotations

from typing import assert_never

from shoal.tasks.generate.answer import Called
from shoal.tasks.generate.calls import Calls, read_call, read_head
from shoal.tasks.generate.stops import kept_back

#: Around a call, as Hermes 2 Pro and Qwen write it: https://github.com/NousResearch/Hermes-Function-Calling
OPEN, CLOSE = "<tool_call>", "</tool_call>"


class TaggedCalls(Calls):
    """Text with calls in tags (`OPEN`, `CLOSE`), any number; blanks before a call are held back."""

    def __init__(self) -> None:
        super().__init__("text", CLOSE)

    def _rest(self, *, complete: bool) -> None:
        match self._at:
            case "text" | "head":
                before, tag, body = self._held.partition(OPEN)
                # Some end where the tag should be closed.
                if complete and tag and (call := read_call(body)) is not None:
                    self._call(call)
                    self._held = before
                self._say(self._held.rstrip() if self._calls else self._held)
            case "arguments":
                self._told += [Called(self._calls - 1, None, self._held)] if self._held else []
            case "members":
                pass
            case "between":
                # The tag was never closed: what is here was said.
                mark = len(self._held) - kept_back(self._held, (CLOSE,))
                self._say(self._held[:mark].rstrip())
            case _:
                assert_never(self._at)

    def _text(self) -> bool:
        start = self._held.find(OPEN)
        if start < 0:
            self._before(len(self._held) - kept_back(self._held, (OPEN,)))
            return False
        self._before(start)
        self._at = "head"
        return True

    def _before(self, mark: int) -> None:
        """Say what comes before this place, but for blanks."""
        sure = self._held[:mark].rstrip()
        self._held = self._held[len(sure) :]
        self._say(sure)

    def _head(self) -> bool:
        """Held are blanks, the tag and what follows it."""
        _, _, body = self._held.partition(OPEN)
        close = body.find(CLOSE)
        written = body if close < 0 else body[:close]
        if (head := read_head(written)) is not None:
            self._held = body
            return self._begin(head)
        if close < 0:
            return False
        if (call := read_call(written)) is not None:
            self._call(call)
        else:
            self._say(self._held[: len(self._held) - len(body) + close + len(CLOSE)])
        self._at, self._held = "text", body[close + len(CLOSE) :]
        return True

    def _between(self) -> bool:
        """What stands behind a call in its tags is passed over; where they were not closed, it was said."""
        close, start = self._held.find(CLOSE), self._held.find(OPEN)
        if close >= 0 and not 0 <= start < close:
            self._held = self._held[close + len(CLOSE) :]
        elif start < 0:
            return False
        self._at = "text"
        return True

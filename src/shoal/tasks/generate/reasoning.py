"""What a model thinks before it answers, between tags, told apart from the answer. Pure."""

from __future__ import annotations

from shoal.tasks.generate.answer import Answer, Delta, thought
from shoal.tasks.generate.stops import kept_back


class Reasoned:
    """An answer that may have reasoning before it, which is told without the blanks around it.

    A text that goes on with a prompt which opened the tag begins inside (DeepSeek-R1, QwQ).
    """

    def __init__(self, tags: tuple[str, str], answer: Answer, *, inside: bool) -> None:
        self._open, self._close = tags
        self._answer = answer
        self._inside = inside
        self._undecided = not inside
        self._held = ""
        self._thought = False  # some of it was told
        self._blank = False  # space between reasoning and answer is neither's

    def feed(self, text: str) -> list[Delta]:
        told, rest = self._taken(text)
        return told + self._answer.feed(rest) if rest else told

    def end(self, text: str, *, complete: bool) -> list[Delta]:
        told, rest = self._taken(text)
        if self._inside:
            told += self._told(len(self._held))
        elif self._undecided:
            rest = self._held
        return told + self._answer.end(rest, complete=complete)

    def _taken(self, text: str) -> tuple[list[Delta], str]:
        """What of the text is reasoning, and what is the answer's."""
        told: list[Delta] = []
        if self._undecided:
            text, self._held = self._held + text, ""
            begun = text.lstrip()
            if self._open.startswith(begun[: len(self._open)]):
                if len(begun) < len(self._open):
                    self._held = text
                    return told, ""
                text, self._inside = begun[len(self._open) :], True
            self._undecided = False
        if self._inside:
            self._held += text
            if (at := self._held.find(self._close)) < 0:
                return self._told(len(self._held) - kept_back(self._held, (self._close,))), ""
            text = self._held[at + len(self._close) :]
            told = self._told(at)
            self._inside, self._blank = False, True
        if self._blank:
            text = text.lstrip()
            self._blank = not text
        return told, text

    def _told(self, mark: int) -> list[Delta]:
        """What is held before this place, but for blanks that may be the last."""
        sure = self._held[:mark].rstrip()
        self._held = self._held[len(sure) :]
        if not self._thought:
            sure = sure.lstrip()
        self._thought = self._thought or bool(sure)
        return thought(sure)

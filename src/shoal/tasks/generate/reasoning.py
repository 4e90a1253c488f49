"""What a model thinks before it answers, between tags, told apart from the answer. Pure."""

from __future__ import annotations

from shoal.tasks.generate.answer import Answer, Whole


class Reasoned:
    """An answer that may have reasoning before it; of that nothing is told before the end.

    A text that goes on with a prompt which opened the tag begins inside (DeepSeek-R1, QwQ).
    """

    def __init__(self, tags: tuple[str, str], answer: Answer, *, inside: bool) -> None:
        self._open, self._close = tags
        self._answer = answer
        self._inside = inside
        self._undecided = not inside
        self._held = ""
        self._reasoning: str | None = None
        self._blank = False  # space between reasoning and answer is neither's

    def feed(self, text: str) -> str:
        return self._answer.feed(self._taken(text))

    def end(self, text: str, *, complete: bool) -> Whole:
        rest = self._taken(text)
        if self._inside:
            self._reasoning = self._held.strip()
        elif self._undecided:
            rest = self._held
        whole = self._answer.end(rest, complete=complete)
        return whole._replace(reasoning=self._reasoning or None)

    def _taken(self, text: str) -> str:
        """What of the text is the answer's."""
        if self._undecided:
            text, self._held = self._held + text, ""
            begun = text.lstrip()
            if self._open.startswith(begun[: len(self._open)]):
                if len(begun) < len(self._open):
                    self._held = text
                    return ""
                text, self._inside = begun[len(self._open) :], True
            self._undecided = False
        if self._inside:
            searched = max(0, len(self._held) - len(self._close))
            self._held += text
            if (at := self._held.find(self._close, searched)) < 0:
                return ""
            text = self._held[at + len(self._close) :]
            self._reasoning, self._held = self._held[:at].strip(), ""
            self._inside, self._blank = False, True
        if self._blank:
            text = text.lstrip()
            self._blank = not text
        return text

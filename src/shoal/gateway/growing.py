"""A text that is being generated, as far as it came: pieces of several workers made one text.

Decides which pieces are taken. Two workers that have the same unit generate the same text, so that
pieces merge by what they say; where they do not agree, what came first stays, and the whole decides.
It must not know units, callers or time.
"""

from __future__ import annotations

import msgspec

from shoal.errors import ProtocolError, StreamBroken
from shoal.wire.codec import decode
from shoal.wire.objects import Generation, TokenLogprob
from shoal.wire.queue import Piece

_tokens = msgspec.msgpack.Decoder(list[TokenLogprob])


class Growing:
    """One item's text and what is told of its tokens; `taken` gives what nobody has seen yet."""

    __slots__ = ("_length", "_new", "_new_told", "_parts", "_told")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._told: list[TokenLogprob] = []
        self._new: list[str] = []
        self._new_told: list[TokenLogprob] = []

    def add(self, piece: Piece) -> bool:
        """Whether the piece went on from what is there. Raises `ProtocolError`.

        One that comes too early, as one before it was lost, waits for the whole.
        """
        told = read_told(piece.told)
        if piece.at > self._length or piece.told_at > len(self._told):
            return False
        text = self._beyond(piece.text, piece.at)
        tokens = self._beyond_told(told, piece.told_at)
        if text is None or tokens is None:
            return False
        self._grow(text, tokens)
        return bool(text or tokens)

    def close(self, whole: Generation) -> None:
        """The whole is known: what is missing comes from it.

        Raises:
            StreamBroken: it does not begin with what came.
        """
        text = self._beyond(whole.text, 0)
        tokens = self._beyond_told(whole.logprobs or [], 0)
        enough = len(whole.text) >= self._length and len(whole.logprobs or []) >= len(self._told)
        if text is None or tokens is None or not enough:
            raise StreamBroken(
                "this text was begun by one worker and ended otherwise by another: what was sent of "
                "it is void, try again"
            )
        self._grow(text, tokens)

    def taken(self) -> tuple[str, list[TokenLogprob]]:
        """What came since this was asked last."""
        text, told = "".join(self._new), self._new_told
        self._new, self._new_told = [], []
        return text, told

    def _grow(self, text: str, tokens: list[TokenLogprob]) -> None:
        if text:
            self._parts.append(text)
            self._new.append(text)
            self._length += len(text)
        self._told += tokens
        self._new_told += tokens

    def _beyond(self, text: str, at: int) -> str | None:
        """What `text`, which begins at `at`, has beyond what is there; None if it says otherwise."""
        if at == self._length:
            return text
        self._parts = ["".join(self._parts)]  # once: the next piece may be compared too
        there = self._parts[0][at : at + len(text)]
        return text[len(there) :] if text.startswith(there) else None

    def _beyond_told(self, tokens: list[TokenLogprob], at: int) -> list[TokenLogprob] | None:
        """Likewise. How likely a token is may differ in the last digits from device to device."""
        there = self._told[at : at + len(tokens)]
        same = [token.bytes for token in there] == [t.bytes for t in tokens[: len(there)]]
        return tokens[len(there) :] if same else None


def read_told(told: bytes) -> list[TokenLogprob]:
    """What a piece tells of its tokens. Raises `ProtocolError`."""
    return decode(_tokens, told, "what a piece tells") if told else []


def read_generation(told: bytes) -> Generation:
    """An item's whole. Raises `ProtocolError`."""
    if not told:
        raise ProtocolError("a worker answered with no text")
    return decode(_generation, told, "what a worker generated")


_generation = msgspec.msgpack.Decoder(Generation)

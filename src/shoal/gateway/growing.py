"""A text that is being generated, as far as it came: pieces of several workers made one text.

Decides which pieces are taken. Two workers that have the same unit generate the same text, so that
pieces merge by what they say; where they do not agree, what came first stays, and the whole decides.
It must not know units, callers or time.
"""

from __future__ import annotations

import msgspec

from shoal.errors import ProtocolError, StreamBroken
from shoal.tasks.generate.answer import (
    Called,
    Delta,
    Said,
    Thought,
    coalesced,
    said,
    thought,
)
from shoal.wire.codec import decode
from shoal.wire.objects import Generation, TokenLogprob, ToolCall
from shoal.wire.queue import CallPart, Piece

_tokens = msgspec.msgpack.Decoder(list[TokenLogprob])


class _Grown:
    """What came of a text; `length` in characters."""

    __slots__ = ("_parts", "length")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.length = 0

    def add(self, text: str) -> None:
        self._parts.append(text)
        self.length += len(text)

    def beyond(self, text: str, at: int) -> str | None:
        """What `text`, which begins at `at`, has beyond what is there; None if it says otherwise."""
        if at == self.length:
            return text
        self._parts = ["".join(self._parts)]  # once: the next piece may be compared too
        there = self._parts[0][at : at + len(text)]
        return text[len(there) :] if text.startswith(there) else None


class Growing:
    """One item's text, reasoning and calls, and what is told of its tokens; `taken` gives what nobody has seen yet."""

    __slots__ = ("_calls", "_names", "_new", "_new_told", "_reasoning", "_text", "_told")

    def __init__(self) -> None:
        self._text, self._reasoning = _Grown(), _Grown()
        self._names: list[str] = []
        self._calls: list[_Grown] = []
        self._told: list[TokenLogprob] = []
        self._new: list[Delta] = []
        self._new_told: list[TokenLogprob] = []

    def add(self, piece: Piece) -> bool:
        """Whether the piece went on from what is there. Raises `ProtocolError`.

        One that comes too early, as one before it was lost, waits for the whole.
        """
        told = read_told(piece.told)
        if self._early(piece):
            return False
        tokens = self._beyond_told(told, piece.told_at)
        text = self._text.beyond(piece.text, piece.at)
        reasoning = self._reasoning.beyond(piece.reasoning, piece.reasoning_at)
        called = [] if piece.call is None else self._beyond_call(piece.call, piece.call_at)
        if tokens is None or text is None or reasoning is None or called is None:
            return False
        deltas = [*thought(reasoning), *said(text), *called]
        self._grow(deltas, tokens)
        return bool(deltas or tokens)

    def close(self, whole: Generation) -> None:
        """The whole is known: what is missing comes from it.

        Raises:
            StreamBroken: it does not begin with what came.
        """
        text = self._text.beyond(whole.text, 0)
        reasoning = self._reasoning.beyond(whole.reasoning or "", 0)
        tokens = self._beyond_told(whole.logprobs or [], 0)
        called = self._beyond_calls(whole.tool_calls)
        enough = (
            len(whole.text) >= self._text.length
            and len(whole.reasoning or "") >= self._reasoning.length
            and len(whole.logprobs or []) >= len(self._told)
        )
        if text is None or reasoning is None or tokens is None or called is None or not enough:
            raise StreamBroken(
                "this text was begun by one worker and ended otherwise by another: what was sent of "
                "it is void, try again"
            )
        # What was begun ends before anything else begins.
        begun = [delta for delta in called if delta.name is None]
        calls = [delta for delta in called if delta.name is not None]
        first, then = thought(reasoning), [*begun, *said(text)]
        if self._text.length:  # its worker tells nothing apart before the end
            first, then = then, first
        self._grow([*first, *then, *calls], tokens)

    def taken(self) -> tuple[list[Delta], list[TokenLogprob]]:
        """What came since this was asked last."""
        new, told = coalesced(self._new), self._new_told
        self._new, self._new_told = [], []
        return new, told

    def _early(self, piece: Piece) -> bool:
        return (
            piece.at > self._text.length
            or piece.reasoning_at > self._reasoning.length
            or piece.call_at > self._called()
            or piece.told_at > len(self._told)
        )

    def _called(self, calls: int | None = None) -> int:
        """Characters of the arguments of the first calls, or of all."""
        return sum(call.length for call in self._calls[:calls])

    def _grow(self, deltas: list[Delta], tokens: list[TokenLogprob]) -> None:
        for delta in deltas:
            match delta:
                case Said(text):
                    self._text.add(text)
                case Thought(text):
                    self._reasoning.add(text)
                case Called(index, name, text):
                    if name is not None:
                        self._names.append(name)
                        self._calls.append(_Grown())
                    self._calls[index].add(text)
        self._new += deltas
        self._told += tokens
        self._new_told += tokens

    def _beyond_call(self, part: CallPart, at: int) -> list[Called] | None:
        """What a call has beyond what is there; `at`: in the arguments of all calls."""
        index, begun = part.index, len(self._calls)
        if index > begun or (index == begun and part.name is None):
            return None
        if index == begun:
            return [Called(index, part.name, part.text)] if at == self._called() else None
        at -= self._called(index)
        if at < 0 or part.name not in (None, self._names[index]):
            return None
        text = self._calls[index].beyond(part.text, at)
        if text and index < begun - 1:
            return None  # it had ended
        return None if text is None else [Called(index, None, text)] if text else []

    def _beyond_calls(self, calls: list[ToolCall]) -> list[Called] | None:
        """Likewise of all calls, whole."""
        begun = [(name, call) for name, call in zip(self._names, self._calls, strict=True)]
        if len(calls) < len(begun):
            return None
        missing = []
        for index, (call, (name, grown)) in enumerate(zip(calls, begun, strict=False)):
            rest = grown.beyond(call.arguments, 0)
            if name != call.name or rest is None or len(call.arguments) < grown.length:
                return None
            if rest:
                missing.append(Called(index, None, rest))
        more = enumerate(calls[len(begun) :], len(begun))
        return missing + [Called(index, call.name, call.arguments) for index, call in more]

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

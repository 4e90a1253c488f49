"""Tokens of one text that is being generated become its characters, until a text comes that ends it.

Decides what is sure of it and counts its tokens. It must not know tokenizers or runtimes.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Literal

import msgspec

from shoal.tasks.generate.answer import Answer, Delta, Whole, coalesced
from shoal.tasks.generate.stops import Stops
from shoal.wire.objects import Alternative, Generation, TokenLogprob
from shoal.wire.socket import Generated
from shoal.worker.prepared import Ids, Told, Written

_decoder = codecs.getincrementaldecoder("utf-8")


class Manner(msgspec.Struct, frozen=True):
    """How a text is written.

    Attributes:
        bytes_of: what a token stands for. `hidden`: those that are no part of the text.
        stop: texts that end it. `spaced`: it begins with a space that is no part of it.
        answer: what is told of it apart, anew each time.
    """

    bytes_of: Callable[[int], bytes]
    hidden: frozenset[int]
    answer: Callable[[], Answer]
    prompt_tokens: int
    stop: tuple[str, ...] = ()
    spaced: bool = False


class TextWriting:
    """A `Writing`."""

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self._characters = _decoder("replace")
        self._stops = Stops(manner.stop)
        self._answer = manner.answer()
        self._whole = Whole()
        self._tokens = 0
        self._begun = not manner.spaced
        self._told: list[TokenLogprob] = []

    def add(self, ids: Ids, told: Told | None) -> Written:
        """The next tokens; what comes behind a text that ends it is left."""
        new = len(self._told)
        text = ""
        for n, token in enumerate(ids.tolist()):
            if self._stops.found:
                break
            self._tokens += 1
            if told is not None:
                self._told.append(self._of(token, told, n))
            text += self._stops.feed(self._read(token))
        deltas = self._written(self._answer.feed(text))
        return Written(deltas, self._told[new:], self._stops.found)

    def end(self, over: Generated) -> bytes:
        """The whole."""
        rest = self._characters.decode(b"", True)
        text = self._stops.feed(rest) + self._stops.end()
        stopped = self._stops.found
        self._written(self._answer.end(text, complete=stopped or over.finish != "length"))
        whole = self._whole
        finish: Literal["stop", "length", "tool_calls"] = "stop"
        if not stopped and over.finish == "length":
            finish = "length"
        elif whole.calls:
            finish = "tool_calls"
        return msgspec.msgpack.encode(
            Generation(
                text=whole.text,
                finish=finish,
                prompt_tokens=self._manner.prompt_tokens,
                # A runtime goes on until it hears that the text ended.
                new_tokens=self._tokens if stopped else over.new_tokens,
                cached_tokens=over.cached_tokens,
                reasoning=whole.reasoning,
                tool_calls=whole.calls,
                logprobs=self._told or None,
            )
        )

    def _written(self, deltas: list[Delta]) -> list[Delta]:
        if not deltas:
            return deltas
        joined = coalesced(deltas)
        self._whole.add(joined)
        return joined

    def _read(self, token: int) -> str:
        if token in self._manner.hidden:
            return ""
        data = self._manner.bytes_of(token)
        if not self._begun and data:
            self._begun, data = True, data.removeprefix(b" ")
        return self._characters.decode(data)

    def _of(self, token: int, told: Told, n: int) -> TokenLogprob:
        top = [
            Alternative(*self._shown(other), logprob=float(logprob))
            for other, logprob in zip(
                told.top_ids[n].tolist(), told.top_logprobs[n].tolist(), strict=True
            )
        ]
        return TokenLogprob(*self._shown(token), logprob=float(told.logprobs[n]), top=top)

    def _shown(self, token: int) -> tuple[str, bytes]:
        """Its text, which is empty where it is a part of a character, and its bytes."""
        data = self._manner.bytes_of(token)
        try:
            return data.decode(), data
        except UnicodeDecodeError:
            return "", data

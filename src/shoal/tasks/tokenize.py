"""`tokenize`: what is told of the tokens of a text. Pure: the tokenizer ran elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

import msgspec

from shoal.wire.objects import Token, Tokenized


class Piece(NamedTuple):
    """A token as tokenizers has it: `start` and `end` count characters (code points) of the text."""

    id: int
    token: str
    special: bool
    start: int
    end: int


def told_of_text(text: str, pieces: Iterable[Piece]) -> bytes:
    """Each piece with its part of the text: the answer in MessagePack.

    A special token has its own name for a text, and no place in it; the others count bytes. Both as
    text-embeddings-inference has them.
    """
    at = None if text.isascii() else list(accumulate((len(c.encode()) for c in text), initial=0))

    def told(piece: Piece) -> Token:
        number, token, special, start, end = piece
        if special:
            return Token(number, token, True, None, None)
        first, last = (start, end) if at is None else (at[start], at[end])
        return Token(number, text[start:end], False, first, last)

    return msgspec.msgpack.encode(Tokenized(tokens=[told(piece) for piece in pieces]))


def told_of_ids(text: str) -> bytes:
    """What ids were decoded to: the answer in MessagePack."""
    return msgspec.msgpack.encode(Tokenized(text=text))

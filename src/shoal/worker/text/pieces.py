"""What each token of a model adds to a text that it writes. Knows the tokenizer, no text."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tokenizers import Tokenizer

from shoal.tasks.generate.pieces import bytes_of, spaced


class Pieces:
    """Bytes by token, remembered: a text takes a look-up a token.

    Attributes:
        spaced: a text by itself begins with a space that is no part of it.
        special: ids of the special tokens, by name.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises `ValueError` for a tokenizer that is of no generator's kind."""
        steps = None if tokenizer.decoder is None else json.loads(tokenizer.decoder.__getstate__())
        read = bytes_of(steps)
        if read is None:
            raise ValueError("its decoder is of a kind that no text is generated with")
        self._tokenizer = tokenizer
        self.spaced = spaced(steps)
        self._read = read
        added = tokenizer.get_added_tokens_decoder()
        self.special = {token.content: i for i, token in added.items() if token.special}
        self._known: dict[int, bytes] = {}

    def of(self, token: int) -> bytes:
        """Of a special token: its name."""
        known = self._known.get(token)
        if known is None:
            # Ids past the tokenizer's are rows that a model's table was filled up with.
            known = self._read(self._tokenizer.id_to_token(token) or "")
            self._known[token] = known
        return known

    def hidden(self, shown: Iterable[str] = ()) -> frozenset[int]:
        """The special tokens that are no part of a text: all but those in `shown`."""
        kept = set(shown)
        return frozenset(token for name, token in self.special.items() if name not in kept)

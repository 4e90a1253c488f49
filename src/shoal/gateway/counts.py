"""How many tokens a text that was generated took."""

from __future__ import annotations

import msgspec

from shoal.gateway.replies import ItemAnswer
from shoal.wire.codec import decode


class Counts(msgspec.Struct, frozen=True):
    """The tokens of a `Generation`."""

    prompt_tokens: int
    new_tokens: int
    cached_tokens: int = 0


_counts = msgspec.msgpack.Decoder(Counts)


def counts_of(item: ItemAnswer) -> Counts:
    """Of an item that did not fail. Raises `ProtocolError`."""
    return decode(_counts, item.told, "what a worker generated")

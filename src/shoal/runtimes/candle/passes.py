"""Which items go through the library together, and what that takes.

Decides by lengths alone. The library pads the items of a pass to its longest. MiniLM on one core, texts
of mixed lengths a second: one by one 41, exactly equal ones together 45, padded by up to a tenth 50, by
up to three tenths 48; with 512 tokens a pass as many as with 2,048, with 128 a tenth fewer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.candle.configs import Widths

#: Tokens of one pass, padding among them: they bound its activations.
_PASS_TOKENS = 512
#: How much shorter than the longest of its pass an item may be.
_PADDED = 0.1


def passes(lengths: NDArray[np.int64], fit: NDArray[np.int64]) -> Iterator[list[int]]:
    """The positions in `fit`, longest items first, in passes with at least one item each."""
    one: list[int] = []
    for item in fit[np.argsort(-lengths[fit], kind="stable")].tolist():
        longest = int(lengths[one[0]]) if one else 0
        full = (len(one) + 1) * longest > _PASS_TOKENS
        if one and (full or lengths[item] < (1 - _PADDED) * longest):
            yield one
            one = []
        one.append(item)
    if one:
        yield one


def activation_bytes(widths: Widths, max_tokens: int) -> int:
    """What the largest pass takes at its peak, in a block's feed-forward part or in its attention.

    Measured with MiniLM at 256 to 2,048 tokens a pass: 13.1 to 13.7 numbers of the hidden width a
    token, where the inner one is four times as wide; and in attention 7 of them, with twice the scores
    of every token to every other, or four times under a mask.
    """
    tokens = max(_PASS_TOKENS, max_tokens)
    feeding = 6 * widths.hidden + 2 * widths.inner
    attending = 7 * widths.hidden + 4 * widths.heads * max_tokens
    return 4 * tokens * max(feeding, attending)

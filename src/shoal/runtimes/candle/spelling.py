"""Token ids as text: the library reads texts only, and the worker has tokenized them already.

An id is one character, and the library's tokenizer a table of these characters, so that what it reads
of a text are the ids that were written, and nothing is cut, added or split.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

#: No control character stands for an id.
_FIRST = 0x100
#: The code points between these are no characters but halves of some in UTF-16.
_SURROGATES, _AFTER_SURROGATES = 0xD800, 0xE000
#: As many ids as there are characters; the largest vocabulary of the catalog has 262,144.
MOST_IDS = 0x110000 - _FIRST - (_AFTER_SURROGATES - _SURROGATES)


def spelled(ids: NDArray[np.int32]) -> str:
    """One character an id; ids are from 0 up to `MOST_IDS`."""
    points = ids.astype(np.uint32) + np.uint32(_FIRST)
    points[points >= _SURROGATES] += np.uint32(_AFTER_SURROGATES - _SURROGATES)
    return points.astype("<u4").tobytes().decode("utf-32-le")


def tokenizer(vocabulary: int) -> bytes:
    """The `tokenizer.json` that reads what `spelled` writes.

    Of https://huggingface.co/docs/tokenizers: byte pairs without a pair. It drops out merges, of which
    there are none, because it then keeps no table of texts that it has seen: 88 MB after 12,000.
    """
    words = {
        word: number for number, word in enumerate(spelled(np.arange(vocabulary, dtype=np.int32)))
    }
    model = {"type": "BPE", "dropout": 1.0, "vocab": words, "merges": []}
    return msgspec.json.encode({"version": "1.0", "added_tokens": [], "model": model})

"""How many tokens of a model's sequences keep their keys at once, where its profile says nothing.

A runtime takes as much when it loads the model, and a worker counts with it before: so it is one rule.
"""

from __future__ import annotations

#: Places for one sequence of the longest, or for so many tokens of each.
_EACH_TOKENS = 1024
#: For keys at most, on a processor and on a GPU.
_MOST_BYTES, _MOST_GPU_BYTES = 2 << 30, 16 << 30


def places(
    max_tokens: int, sequences: int, place_bytes: int, *, gpu: bool, anew: bool = False
) -> int:
    """`place_bytes`: of one token's keys and values, in all layers. `anew`: prompt and text of a sequence
    have `max_tokens` each, as of `catalog.families.Family`."""
    longest = 2 * max_tokens if anew else max_tokens
    wanted = max(longest, sequences * min(longest, _EACH_TOKENS))
    return min(wanted, (_MOST_GPU_BYTES if gpu else _MOST_BYTES) // place_bytes)

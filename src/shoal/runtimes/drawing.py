"""The number by which a token is drawn: of a seed and a place, and of nothing else.

So a sequence becomes the same text whatever it is generated beside, and in whatever runtime. Mixing is
splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def drawn(seed: int, place: int) -> float:
    """In [0, 1), for the token at `place` of a text (0 is the first that is generated)."""
    mixed = _mix((seed & _MASK) ^ _mix((place + 1) * _GOLDEN & _MASK))
    return (mixed >> 11) / (1 << 53)


def _mix(x: int) -> int:
    x = (x + _GOLDEN) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)

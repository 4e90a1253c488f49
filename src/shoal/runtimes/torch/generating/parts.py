"""Sequences whose keys lie in ranges of the store."""

from __future__ import annotations

from shoal.runtimes.generating.generator import Part
from shoal.runtimes.generating.sequence import Sequence
from shoal.runtimes.torch.generating.arena import Range

Kept = Sequence[Range]


def range_of(part: Part[Range]) -> Range:
    """Where the keys of its sequence are."""
    assert part.sequence.range is not None, "it is under way"
    return part.sequence.range

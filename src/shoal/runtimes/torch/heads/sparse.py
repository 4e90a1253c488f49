"""Sparse rows: which columns of an item are not zero, and what stands in them."""

from __future__ import annotations

import torch
from torch import Tensor

from shoal.runtimes.torch.heads.base import HeadOutput


def nonzero(rows: Tensor) -> HeadOutput:
    """[items, columns] float32 -> its positive values, columns ascending in every item."""
    items, columns = rows.nonzero(as_tuple=True)
    lengths = torch.bincount(items, minlength=len(rows))
    return HeadOutput(rows[items, columns], lengths, columns.int())


def joined(parts: list[HeadOutput]) -> HeadOutput:
    """Outputs of some items and of the next ones as one."""
    rows, lengths, indices = zip(*((p.rows, p.lengths, p.indices) for p in parts), strict=True)
    return HeadOutput(torch.cat(rows), torch.cat(lengths), torch.cat(indices))

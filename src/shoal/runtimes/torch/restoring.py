"""Puts what the passes of a batch gave back into the order that its items came in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shoal.runtimes import passes
from shoal.runtimes.torch.heads.base import HeadOutput
from shoal.wire.outputs import Output


def restored(parts: list[HeadOutput], order: list[NDArray[np.int64]], items: int) -> Output:
    """As `passes.restored`, of tensors."""
    return passes.restored([_on_host(part) for part in parts], order, items)


def _on_host(part: HeadOutput) -> Output:
    return Output(part.rows.cpu().numpy(), _counts(part.lengths), _counts(part.indices))


def _counts(tensor: Tensor | None) -> NDArray[np.int32] | None:
    return None if tensor is None else tensor.int().cpu().numpy()

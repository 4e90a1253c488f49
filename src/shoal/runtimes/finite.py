"""No answer of a model leaves its runtime as NaN or infinity: such an item fails alone."""

from __future__ import annotations

import msgspec
import numpy as np

from shoal.errors import ModelOutputInvalid
from shoal.wire.arrays import Array, from_wire
from shoal.wire.messages import Done


def fail_non_finite(done: Done) -> Done:
    """`done` with every item that holds NaN or infinity, and no error yet, marked as failed."""
    failed = dict(done.failed)
    for head, array in done.arrays.items():
        for item in _non_finite(array):
            if item not in failed:
                failed[item] = ModelOutputInvalid(
                    f"the model answered with NaN or infinity in '{head}'"
                ).info
    return done if len(failed) == len(done.failed) else msgspec.structs.replace(done, failed=failed)


def _non_finite(array: Array) -> list[int]:
    """Positions of the rows of a [n_items, ...] float array that are not all finite."""
    if not array.dtype.startswith("float"):
        return []
    finite = np.isfinite(from_wire(array))
    if finite.all():
        return []
    rows = finite.reshape(len(finite), -1).all(axis=1)
    return [int(item) for item in np.flatnonzero(~rows)]

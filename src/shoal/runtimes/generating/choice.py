"""The next token of a text, as a sampler chose it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.wire.socket import Sampling


class Choice(NamedTuple):
    """The next token of a text.

    Attributes:
        sound: whether there was one to choose: no logit was NaN, and not all were minus infinity.
        log: logarithm of its likelihood, where logprobs are told; `top_ids`, `top_logs`: of the
            likeliest, as many as were asked for.
    """

    token: int
    sound: bool
    log: float
    top_ids: NDArray[np.int32]
    top_logs: NDArray[np.float32]


def penalises(sampling: Sampling) -> bool:
    """Whether what was there changes anything."""
    return sampling.presence != 0 or sampling.frequency != 0 or sampling.repetition != 1

"""When two vectors count as the same: what the project promises for any company in a batch."""

import numpy as np


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the cosine is at least 0.9999."""
    cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    return cosine >= 0.9999

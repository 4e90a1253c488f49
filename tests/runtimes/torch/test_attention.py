"""Attention over packed rows against the definition, item by item, on what devices there are."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from shoal.runtimes.torch.attention import attend
from shoal.runtimes.torch.packed import pack

HEADS, WIDTH = 4, 8
ON_CPU = [("cpu", torch.float32, 1e-5), ("cpu", torch.bfloat16, 3e-2)]
ON_GPU = [
    ("cuda", torch.float32, 1e-4),
    ("cuda", torch.float16, 1e-2),
    ("cuda", torch.bfloat16, 3e-2),
]
CASES = [*ON_CPU, *(ON_GPU if torch.cuda.is_available() else [])]


@pytest.mark.parametrize(("device", "dtype", "tolerance"), CASES, ids=str)
def test_every_item_attends_to_itself_alone(
    device: str, dtype: torch.dtype, tolerance: float
) -> None:
    lengths = np.array([3, 1, 40, 3, 17, 17, 5], np.int64)
    (packed,) = pack(
        np.zeros(lengths.sum(), np.int32),
        lengths,
        np.arange(len(lengths)),
        pass_tokens=1000,
        device=torch.device(device),
    )
    torch.manual_seed(5)
    qkv = torch.randn(packed.computed, 3 * HEADS * WIDTH).to(device, dtype)
    ours = attend(qkv, packed, HEADS)
    assert ours.shape == (packed.computed, HEADS * WIDTH)
    edges = packed.offsets.tolist()
    for start, stop in pairwise(edges):
        expected = _by_definition(qkv[start:stop].float())
        torch.testing.assert_close(
            ours[start:stop].float(), expected, atol=tolerance, rtol=tolerance
        )


def _by_definition(qkv: torch.Tensor) -> torch.Tensor:
    query, key, value = qkv.view(-1, 3, HEADS, WIDTH).permute(1, 2, 0, 3)
    weights = torch.softmax(query @ key.transpose(1, 2) / math.sqrt(WIDTH), -1)
    attended: torch.Tensor = (weights @ value).transpose(0, 1).reshape(-1, HEADS * WIDTH)
    return attended

"""Distances beyond the last bucket, and items as long as the table of positions allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made
from tests.runtimes.torch.families.rows import ROWS

LENGTHS = [300, 1, 129, 128, 17, 16, 300, 9, 8, 7]


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("mpnet", {"max_position_embeddings": 302}),
        ("deberta", {"max_position_embeddings": 300}),
        ("deberta", {"max_position_embeddings": 300, "position_buckets": 64}),
        ("t5", {}),
        ("t5", {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}),
    ],
)
def test_long_items(
    runtime: TorchRuntime, tmp_path: Path, family: str, change: dict[str, int]
) -> None:
    model = ROWS[family].make("encoder", tmp_path, **change)
    runtime.load(made.load(tmp_path, family=family, max_tokens=300))
    items = made.random_items(LENGTHS)
    ours = made.vectors(made.run(runtime, items))
    np.testing.assert_allclose(ours, made.pooled(model, items, "mean"), atol=2e-5)

"""What its files may say beside what the table of all families checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made
from tests.runtimes.torch.families.rows import ROWS

ROW = ROWS["modernbert"]


def test_files_of_before_transformers_5(runtime: TorchRuntime, tmp_path: Path) -> None:
    """Thetas and the pattern of layers by their first names, as the published models have them."""
    kinds = ["full_attention", "sliding_attention"]
    thetas = {"full_attention": {"rope_theta": 40.0}, "sliding_attention": {"rope_theta": 20.0}}
    reference = ROW.make(
        "encoder",
        tmp_path,
        layer_types=kinds * 2,
        rope_parameters={kind: {"rope_type": "default"} | said for kind, said in thetas.items()},
    )
    old = {"global_attn_every_n_layers": 2, "global_rope_theta": 40.0, "local_rope_theta": 20.0}
    made.change_config(tmp_path, {"layer_types": None, "rope_parameters": {}} | old)
    _check(runtime, tmp_path, reference, made.random_items([60, 3, 17]), 64)


def test_items_of_many_windows(runtime: TorchRuntime, tmp_path: Path) -> None:
    reference = ROW.make("encoder", tmp_path, max_position_embeddings=700)
    items = made.random_items([700, 128, 1, 129, 300, 256, 300])
    _check(runtime, tmp_path, reference, items, 700)


def _check(
    runtime: TorchRuntime, folder: Path, reference: Any, items: list[list[int]], max_tokens: int
) -> None:
    runtime.load(made.load(folder, family="modernbert", max_tokens=max_tokens))
    ours = made.vectors(made.run(runtime, items))
    np.testing.assert_allclose(ours, made.pooled(reference, items, "mean"), atol=5e-5)

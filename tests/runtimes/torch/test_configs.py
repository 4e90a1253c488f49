"""A config that would fill the memory before a tensor is missed is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made
from tests.runtimes.torch.families.rows import ROWS
from tests.runtimes.torch.generating import texts

LAYERS = {"bert": "num_hidden_layers", "distilbert": "n_layers", "t5": "num_layers"}


@pytest.mark.parametrize("family", ["bert", "distilbert", "gemma3", "llama", "modernbert", "t5"])
@pytest.mark.parametrize("layers", [10**12, -1])
def test_no_model_has_as_many_layers(
    runtime: TorchRuntime, tmp_path: Path, family: str, layers: int
) -> None:
    ROWS[family].make("encoder", tmp_path)
    key = LAYERS.get(family, "num_hidden_layers")
    made.change_config(tmp_path, {key: layers, "layer_types": None})
    with pytest.raises(ModelLoadFailed, match=rf"config\.json: .*{key}"):
        texts.load(runtime, tmp_path, family, heads={"dense": {}}, sequences=0, max_tokens=9)

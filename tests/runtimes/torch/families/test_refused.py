"""A config that computes otherwise than the family does is refused by its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made
from tests.runtimes.torch.families.rows import ROWS

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("distilbert", {"model_type": "bert"}, "model_type"),
    ("distilbert", {"activation": "mish"}, "activation"),
    ("distilbert", {"dim": "wide"}, "dim"),
    ("distilbert", {"n_heads": 5}, "dim 32 is no multiple of n_heads 5"),
    ("distilbert", {"n_heads": 0}, "dim 32 is no multiple of n_heads 0"),
    ("roberta", {"model_type": "longformer"}, "model_type"),
    ("roberta", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("roberta", {"is_decoder": True}, "is_decoder"),
    ("roberta", {"hidden_act": "mish"}, "hidden_act"),
    ("roberta", {"num_attention_heads": 5}, "hidden_size 32 is no multiple of num_attention_heads"),
]


@pytest.mark.parametrize(("family", "change", "said"), REFUSED, ids=str)
def test_a_config_that_computes_otherwise_is_refused(
    runtime: TorchRuntime, tmp_path: Path, family: str, change: dict[str, Any], said: str
) -> None:
    row = ROWS[family]
    row.make("encoder", tmp_path)
    made.change_config(tmp_path, change)
    with made.load_fails(rf"config\.json.*{said}"):
        runtime.load(made.load(tmp_path, family=family, max_tokens=row.max_tokens))

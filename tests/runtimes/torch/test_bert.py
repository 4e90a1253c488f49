"""The family against transformers' own forward pass, in float32, on random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import BertForMaskedLM, BertForSequenceClassification

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made

LENGTHS = [7, 1, 64, 3, 3, 20, 7, 33, 2, 64]

SHAPES: list[dict[str, Any]] = [
    {},
    {"hidden_size": 48, "num_attention_heads": 3, "intermediate_size": 40},
    {"num_hidden_layers": 1, "num_attention_heads": 1},
    {"hidden_act": "gelu_new"},
    {"hidden_act": "relu"},
    {"layer_norm_eps": 1e-5, "type_vocab_size": 1},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_equals_transformers(
    runtime: TorchRuntime, tmp_path: Path, shape: dict[str, Any], pooling: str
) -> None:
    model = made.save_bert(tmp_path, **shape)
    runtime.load(made.load(tmp_path, heads={"dense": {"pooling": pooling}}))
    items = made.random_items(LENGTHS)
    ours = made.vectors(made.run(runtime, items))
    np.testing.assert_allclose(ours, made.pooled(model, items, pooling), atol=2e-5)


@pytest.mark.parametrize("kind", [BertForMaskedLM, BertForSequenceClassification])
def test_the_encoder_of_another_task_is_found_under_its_prefix(
    runtime: TorchRuntime, tmp_path: Path, kind: type[Any]
) -> None:
    model = made.save_bert(tmp_path, kind)
    runtime.load(made.load(tmp_path))
    items = made.random_items([5, 9])
    ours = made.vectors(made.run(runtime, items))
    np.testing.assert_allclose(ours, made.pooled(model.bert, items, "mean"), atol=2e-5)


def test_one_item_of_one_token(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = made.save_bert(tmp_path)
    runtime.load(made.load(tmp_path))
    ours = made.vectors(made.run(runtime, [[42]]))
    np.testing.assert_allclose(ours, made.pooled(model, [[42]], "mean"), atol=2e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_near(runtime: TorchRuntime, tmp_path: Path, dtype: str) -> None:
    model = made.save_bert(tmp_path)
    full = runtime.load(made.load(tmp_path)).bytes
    # On CPU tables, norms and residuals stay float32.
    assert full // 2 < runtime.load(made.load(tmp_path, dtype=dtype)).bytes < full
    items = made.random_items(LENGTHS)
    ours = made.vectors(made.run(runtime, items))
    assert ours.dtype == np.float32
    assert made.cosines(ours, made.pooled(model, items, "mean")).min() > 0.999


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "roberta"}, "model_type"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"is_decoder": True}, "is_decoder"),
        ({"hidden_act": "mish"}, "hidden_act"),
        ({"num_attention_heads": 5}, "hidden_size 32 is no multiple of num_attention_heads 5"),
        ({"hidden_size": "wide"}, "hidden_size"),
    ],
)
def test_a_config_that_computes_otherwise_is_refused(
    runtime: TorchRuntime, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    made.save_bert(tmp_path)
    made.change_config(tmp_path, change)
    with made.load_fails(rf"config\.json.*{said}"):
        runtime.load(made.load(tmp_path))

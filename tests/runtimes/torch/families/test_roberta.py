"""What computes as RoBERTa does, under another model_type; and where its positions begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    CamembertConfig,
    CamembertModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from shoal.runtimes.batch import Batch
from shoal.runtimes.torch.model import Model
from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made
from tests.runtimes.torch.families.row import SHAPE, randomize


def _save(folder: Path, model: Any) -> Any:
    randomize(model.eval())
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (RobertaModel, RobertaConfig),
        (XLMRobertaModel, XLMRobertaConfig),
        (CamembertModel, CamembertConfig),
    ],
)
def test_kin(runtime: TorchRuntime, tmp_path: Path, kind: type[Any], config: type[Any]) -> None:
    model = _save(tmp_path, kind(config(**SHAPE)))
    runtime.load(made.load(tmp_path, family="roberta", max_tokens=62))
    items = made.random_items([62, 1, 7, 7])
    ours = made.vectors(made.run(runtime, items))
    np.testing.assert_allclose(ours, made.pooled(model, items, "mean"), atol=2e-5)


@pytest.mark.parametrize("padding", [0, 1, 7])
def test_padding_tokens_in_a_text_take_no_position(
    runtime: TorchRuntime, tmp_path: Path, padding: int
) -> None:
    model = _save(tmp_path, RobertaModel(RobertaConfig(**SHAPE | {"pad_token_id": padding})))
    runtime.load(made.load(tmp_path, family="roberta", max_tokens=63 - padding))
    items = [[padding], [padding, 20, padding, padding, 21], [22, padding], [23, 24, 25], [26]]
    ours = made.vectors(made.run(runtime, items))
    np.testing.assert_allclose(ours, made.pooled(model, items, "mean"), atol=2e-5)


def test_a_second_text_has_no_type_of_its_own(tmp_path: Path) -> None:
    _save(tmp_path, RobertaModel(RobertaConfig(**SHAPE)))
    load = made.load(tmp_path, family="roberta", max_tokens=62)
    model = Model(load, torch.device("cpu"))
    tokens, lengths = np.arange(5, 12, dtype=np.int32), np.array([7], np.int64)
    alone, paired = (
        model.run(Batch(tokens, lengths, splits), ["dense"]).outputs["dense"].values
        for splits in (None, np.array([3], np.int32))
    )
    np.testing.assert_array_equal(alone, paired)


def test_positions_end_before_the_table_does(runtime: TorchRuntime, tmp_path: Path) -> None:
    _save(tmp_path, RobertaModel(RobertaConfig(**SHAPE)))
    with made.load_fails("max_tokens is 63, but the model's positions allow 1 to 62"):
        runtime.load(made.load(tmp_path, family="roberta", max_tokens=63))

"""A checkpoint may hold a decoder of its own though its config says that it is the words'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from shoal.runtimes.batch import Batch
from shoal.runtimes.torch.model import Model
from tests.runtimes.torch import made
from tests.runtimes.torch.families.rows import ROWS

OWN = {
    "albert": "predictions.decoder",
    "bert": "cls.predictions.decoder",
    "distilbert": "vocab_projector",
    "electra": "generator_lm_head",
    "modernbert": "decoder",
    "mpnet": "lm_head.decoder",
    "roberta": "lm_head.decoder",
}


@pytest.mark.parametrize("family", OWN)
def test_the_decoder_that_is_stored_counts(tmp_path: Path, family: str) -> None:
    row = ROWS[family]
    model = row.make("masked-lm", tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    width = model.get_output_embeddings().weight.shape[1]
    tensors[f"{OWN[family]}.weight"] = torch.randn(101, width)
    tensors[f"{OWN[family]}.bias"] = torch.randn(101)
    save_file(tensors, file, {"format": "pt"})
    reference = type(model).from_pretrained(tmp_path)
    item = [11, 12, 13]
    with torch.inference_mode():
        expected = torch.log1p(torch.relu(reference(torch.tensor([item])).logits[0])).amax(0)
    load = made.load(tmp_path, family=family, heads={"sparse": {"head": "splade"}}, max_tokens=9)
    batch = Batch(np.array(item, np.int32), np.array([3], np.int64))
    said = Model(load, torch.device("cpu")).run(batch, ["sparse"]).outputs["sparse"]
    assert said.indices is not None
    ours = np.zeros(101, np.float32)
    ours[said.indices] = said.values
    np.testing.assert_allclose(ours, expected.numpy(), atol=1e-4)

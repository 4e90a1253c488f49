"""Tokens that none attends to, as transformers computes what an attention mask leaves out."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from shoal.errors import InvalidRequest
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Load, Run

ITEMS = [[5, 6, 7, 9, 9], [5, 8, 9, 9, 9], [6, 7, 8, 5, 6], [7, 8]]
SEEN = [3, 2, 0, 0]


@pytest.fixture
def reference(tmp_path: Path) -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=12,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=16,
    )
    model: BertModel = BertModel(config, add_pooling_layer=False)
    model.eval()  # type: ignore[no-untyped-call]
    model.save_pretrained(tmp_path)
    return model


def run(folder: Path, seen: list[int]) -> list[np.ndarray]:
    runtime = TorchRuntime()
    head = {"head": "colbert", "dim": 32, "projections": []}
    runtime.load(Load("m", str(folder), "bert", {"multivector": head}, max_tokens=8))
    lengths = np.array([len(item) for item in ITEMS], np.int32)
    tokens = np.concatenate([np.array(item, np.int32) for item in ITEMS])
    given = to_wire(np.array(seen, np.int32))
    batch = Run(1, "m", ["multivector"], to_wire(tokens), to_wire(lengths), seen=given)
    done = runtime.run(batch)
    return np.split(from_wire(done.arrays["multivector"]), np.cumsum(lengths)[:-1])


def test_vectors_equal_those_under_an_attention_mask(reference: BertModel, tmp_path: Path) -> None:
    for item, seen, found in zip(ITEMS, SEEN, run(tmp_path, SEEN), strict=True):
        mask = [int(place < (seen or len(item))) for place in range(len(item))]
        with torch.inference_mode():
            hidden = reference(
                input_ids=torch.tensor([item]), attention_mask=torch.tensor([mask])
            ).last_hidden_state[0]
        expected = torch.nn.functional.normalize(hidden, dim=1).numpy()
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("seen", [[1], [1, 1, 1, 3], [-1, 0, 0, 0]])
def test_counts_that_make_no_sense(reference: BertModel, tmp_path: Path, seen: list[int]) -> None:
    with pytest.raises(InvalidRequest, match="seen must be one an item, of 4, and inside"):
        run(tmp_path, seen)

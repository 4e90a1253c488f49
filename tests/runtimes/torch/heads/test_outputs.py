"""Several heads in one pass, items too long for one piece, half precision, items that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertForMaskedLM, BertForTokenClassification

from shoal.errors import InvalidRequest
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import to_wire
from shoal.wire.outputs import Output, Sparse, read_outputs
from shoal.wire.socket import Done, Run
from tests.runtimes.torch import made

HEADS = {
    "dense": {"head": "dense", "pooling": "cls"},
    "sparse": {"head": "splade"},
    "terms": {"head": "lexical"},
    "multivector": {"head": "colbert"},
}


def save(folder: Path, **changes: int) -> Any:
    """A model with tensors of every kind of output."""
    model = made.save_bert(folder, BertForMaskedLM, **changes)
    path = folder / "model.safetensors"
    torch.manual_seed(7)
    added = {
        "linear.weight": torch.randn(12, 32),
        "sparse_linear.weight": torch.randn(1, 32),
        "sparse_linear.bias": torch.randn(1),
    }
    save_file(load_file(path) | added, path)
    return model


def ask(
    runtime: TorchRuntime, items: list[list[int]], names: list[str], splits: list[int] | None = None
) -> Done:
    tokens = np.array([token for item in items for token in item], np.int32)
    lengths = np.array([len(item) for item in items], np.int32)
    given = None if splits is None else to_wire(np.array(splits, np.int32))
    return runtime.run(Run(1, "m", names, to_wire(tokens), to_wire(lengths), splits=given))


def outputs(done: Done, items: int) -> dict[str, Output]:
    return read_outputs(done.arrays, done.lengths, done.indices, items)


def terms(row: object) -> dict[int, float]:
    assert isinstance(row, Sparse)
    assert (np.diff(row.indices) > 0).all()
    return dict(zip(row.indices.tolist(), row.values.tolist(), strict=True))


def test_all_outputs_of_one_pass_are_those_of_each_alone(
    runtime: TorchRuntime, tmp_path: Path
) -> None:
    save(tmp_path)
    items = made.random_items([5, 64, 1, 20, 5])
    runtime.load(made.load(tmp_path, heads=HEADS))
    together = outputs(ask(runtime, items, list(HEADS)), 5)
    for name, options in HEADS.items():
        runtime.load(made.load(tmp_path, heads={name: options}))
        alone = outputs(ask(runtime, items, [name]), 5)[name]
        np.testing.assert_array_equal(together[name].values, alone.values)
    assert together["multivector"].lengths is not None
    assert together["multivector"].lengths.tolist() == [5, 64, 1, 20, 5]
    assert together["dense"].values.shape == (5, 32)


def test_items_that_fail_have_no_rows(runtime: TorchRuntime, tmp_path: Path) -> None:
    save(tmp_path)
    runtime.load(made.load(tmp_path, heads=HEADS))
    good = made.random_items([5, 3])
    done = ask(runtime, [good[0], [made.VOCABULARY], [], good[1]], list(HEADS))
    assert set(done.failed) == {1, 2}
    mixed, alone = outputs(done, 4), outputs(ask(runtime, good, list(HEADS)), 2)
    for name in ("sparse", "terms", "multivector"):
        lengths = mixed[name].lengths
        assert lengths is not None
        assert lengths[[1, 2]].tolist() == [0, 0]
        np.testing.assert_allclose(mixed[name].values, alone[name].values, atol=1e-5)


def test_only_items_that_fail(runtime: TorchRuntime, tmp_path: Path) -> None:
    save(tmp_path)
    runtime.load(made.load(tmp_path, heads=HEADS))
    done = ask(runtime, [[], []], list(HEADS))
    assert set(done.failed) == {0, 1}
    assert outputs(done, 2).keys() == HEADS.keys()


def test_terms_of_items_longer_than_a_piece(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = save(tmp_path, max_position_embeddings=700)
    runtime.load(made.load(tmp_path, heads=HEADS, max_tokens=700))
    items = made.random_items([257, 700, 256, 3, 512, 300])
    rows = outputs(ask(runtime, items, ["sparse"]), 6)["sparse"].rows()
    for item, row in zip(items, rows, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([item])).logits[0]
        expected = torch.log1p(torch.relu(logits)).amax(0)
        ours = torch.zeros(made.VOCABULARY)
        for term, weight in terms(row).items():
            ours[term] = weight
        torch.testing.assert_close(ours, expected, atol=5e-5, rtol=0)


def test_a_token_that_stands_twice_is_one_term(runtime: TorchRuntime, tmp_path: Path) -> None:
    save(tmp_path)
    runtime.load(made.load(tmp_path, heads=HEADS))
    (row,) = outputs(ask(runtime, [[9, 8, 9, 9, 8, 7]], ["terms"]), 1)["terms"].rows()
    assert terms(row).keys() <= {7, 8, 9}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_near(runtime: TorchRuntime, tmp_path: Path, dtype: str) -> None:
    save(tmp_path)
    items = made.random_items([5, 64, 20])
    runtime.load(made.load(tmp_path, heads=HEADS))
    full = outputs(ask(runtime, items, list(HEADS)), 3)
    runtime.load(made.load(tmp_path, heads=HEADS, dtype=dtype))
    half = outputs(ask(runtime, items, list(HEADS)), 3)
    assert all(output.values.dtype == np.float32 for output in half.values())
    assert made.cosines(half["multivector"].values, full["multivector"].values).min() > 0.999
    for name in ("sparse", "terms"):
        for near, exact in zip(half[name].rows(), full[name].rows(), strict=True):
            ours, theirs = terms(near), terms(exact)
            apart = [abs(ours.get(t, 0) - theirs.get(t, 0)) for t in ours.keys() | theirs.keys()]
            assert max(apart, default=0.0) < 0.1


def test_a_pair_is_not_one_text(runtime: TorchRuntime, tmp_path: Path) -> None:
    made.save_bert(tmp_path, BertForTokenClassification)
    runtime.load(made.load(tmp_path, heads={"extract": {"head": "token-labels"}}))
    item = made.random_items([9])[0]
    one, pair, whole = (
        outputs(ask(runtime, [item], ["extract"], splits), 1)["extract"].values
        for splits in (None, [4], [0])
    )
    np.testing.assert_array_equal(one, whole)
    assert np.abs(one - pair).max() > 0.01


@pytest.mark.parametrize("splits", [[1], [1, -1], [1, 4]])
def test_splits_that_make_no_sense(
    runtime: TorchRuntime, tmp_path: Path, splits: list[int]
) -> None:
    made.save_bert(tmp_path)
    runtime.load(made.load(tmp_path))
    with pytest.raises(InvalidRequest, match="splits must be one an item, of 2, and inside"):
        ask(runtime, [[1, 2, 3], [1, 2, 3]], ["dense"], splits)

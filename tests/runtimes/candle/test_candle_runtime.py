"""Loads, batches and refusals of the candle runtime; the torch runtime says what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers.base.modules import Dense
from tokenizers import Tokenizer

from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.errors import InvalidRequest
from shoal.runtimes.base import OutOfMemory, Runtime
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Run
from tests.runtimes.torch import made
from tests.runtimes.torch.test_minilm import LIMIT, TEXTS

ITEMS = made.random_items([7, 1, 64, 3, 3, 20, 7])


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    folder = tmp_path / "bert"
    made.save_bert(folder)
    return folder


def project(folder: Path, name: str, width: int, activation: Any) -> None:
    """Beside a model, a Dense module with random weights."""
    torch.manual_seed(7)
    (folder / name).mkdir()
    Dense(width, 24, activation_function=activation).save(str(folder / name))


def test_a_real_model(candle: Runtime) -> None:
    """The figures of docs/performance.md are of this model."""
    folder = fetch(Catalog.load().card("all-MiniLM-L6-v2"), cache_dir=None, offline=False)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LIMIT)
    items = [found.ids for found in tokenizer.encode_batch(TEXTS)]
    torch_ = TorchRuntime()
    for runtime in (candle, torch_):
        runtime.load(made.load(folder, max_tokens=LIMIT))
    ours, theirs = made.run(candle, items), made.run(torch_, items)
    np.testing.assert_allclose(made.vectors(ours), made.vectors(theirs), atol=1e-5)
    assert sum(map(len, items)) <= ours.computed_tokens < 1.1 * sum(map(len, items))
    assert made.cosines(made.vectors(ours), made.vectors(theirs)).min() > 0.999999


def test_bytes_are_about_those_of_torch(candle: Runtime, bert: Path) -> None:
    held = candle.load(made.load(bert)).bytes
    assert candle.stats().models == {"m": held}
    parameters = sum(file.stat().st_size for file in bert.glob("*.safetensors"))
    assert parameters < held < TorchRuntime().load(made.load(bert)).bytes * 2
    candle.unload("m")
    assert candle.stats().models == {}


def test_items_that_cannot_be_computed_fail_alone(candle: Runtime, bert: Path) -> None:
    candle.load(made.load(bert, max_tokens=20))
    good = made.vectors(made.run(candle, [ITEMS[0]]))[0]
    bad = [[], [made.VOCABULARY], [-1], [1] * 21]
    done = made.run(candle, [ITEMS[0], *bad, ITEMS[0]])
    assert {position: why.code for position, why in done.failed.items()} == {
        1: "invalid_item",
        2: "invalid_item",
        3: "invalid_item",
        4: "too_many_tokens",
    }
    np.testing.assert_allclose(made.vectors(done)[[0, -1]], [good, good], atol=1e-6)
    assert not made.vectors(done)[1:-1].any()


def test_a_batch_without_an_item_that_can_be_computed(candle: Runtime, bert: Path) -> None:
    candle.load(made.load(bert))
    done = made.run(candle, [[], []])
    assert (made.vectors(done).shape, done.computed_tokens) == ((2, 32), 0)


def test_pairs_are_refused(candle: Runtime, bert: Path) -> None:
    """Tokens of a second text have a type of their own, which cannot be said to the library."""
    candle.load(made.load(bert))
    two = np.array([4], np.int32)
    batch = Run(1, "m", ["dense"], to_wire(np.ones(4, np.int32)), to_wire(two))
    assert candle.run(batch).batch == 1
    pair = msgspec.structs.replace(batch, splits=to_wire(two // 2))
    with pytest.raises(InvalidRequest, match="reads no pairs"):
        candle.run(pair)


@pytest.mark.parametrize("activation", [torch.nn.Identity(), torch.nn.Tanh()])
def test_projections(candle: Runtime, bert: Path, activation: Any) -> None:
    project(bert, "2_Dense", 32, activation)
    project(bert, "another", 24, torch.nn.Tanh())
    heads = {"dense": {"pooling": "mean", "projections": ["2_Dense", "another"]}}
    torch_ = TorchRuntime()
    for runtime in (candle, torch_):
        runtime.load(made.load(bert, heads=heads))
    ours, theirs = (made.vectors(made.run(runtime, ITEMS)) for runtime in (candle, torch_))
    assert ours.shape == (len(ITEMS), 24)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_projections_that_are_computed_otherwise(candle: Runtime, bert: Path) -> None:
    project(bert, "2_Dense", 32, torch.nn.ReLU())
    heads = {"dense": {"projections": ["2_Dense"]}}
    with made.load_fails("2_Dense/config.json: .* not torch.nn.modules.activation.ReLU"):
        candle.load(made.load(bert, heads=heads))
    with made.load_fails("projections that are folders; .*linear is none"):
        candle.load(made.load(bert, heads={"dense": {"projections": ["linear"]}}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"heads": {"sparse": {"head": "splade"}}}, "no head 'splade', only 'dense'"),
        ({"heads": {"score": {"head": "cross-encoder"}}}, "no head 'cross-encoder'"),
        ({"heads": {"dense": {}, "more": {"head": "dense"}}}, "one output, not dense, more"),
        ({"heads": {"dense": {"pooling": "max"}}}, "head 'dense': Invalid enum value 'max'"),
        ({"dtype": "bfloat16"}, "float32, not in bfloat16"),
        ({"max_tokens": 65}, "max_tokens is 65, but the model's positions allow 1 to 64"),
        ({"family": "deberta"}, "no family 'deberta'"),
        ({"options": {"x": 1}}, "no options"),
        ({"max_tokens": 0}, "candding says: max_length 0 is below the minimum 1"),
        ({"path": "/no such folder"}, "/no such folder/config.json cannot be read"),
    ],
)
def test_a_load_that_is_refused(
    candle: Runtime, bert: Path, changes: dict[str, Any], said: str
) -> None:
    with made.load_fails(said):
        candle.load(made.load(bert, **changes))
    assert candle.stats().models == {}


def test_broken_files(candle: Runtime, bert: Path) -> None:
    weights = bert / "model.safetensors"
    whole = weights.read_bytes()
    for broken in (b"", whole[:100], whole[:-100], b"\xff" * 100, whole[:8] + b"{}" + whole[10:]):
        weights.write_bytes(broken)
        with made.load_fails("candding"):
            candle.load(made.load(bert))
    weights.unlink()
    with made.load_fails("neither model.safetensors nor model.safetensors.index.json"):
        candle.load(made.load(bert))


def test_tensors_of_another_shape(candle: Runtime, bert: Path) -> None:
    made.change_config(bert, {"intermediate_size": 65})
    with made.load_fails("shape mismatch"):
        candle.load(made.load(bert))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_attention_heads": 0}, "candding panicked: attempt to divide by zero"),
        ({"num_attention_heads": 5}, "candding says: .*shape mismatch in reshape"),
        ({"vocab_size": 2_000_000}, "vocab_size is 2000000; the candle runtime takes 1 to 1111808"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"hidden_size": -1}, "candding says: config error: invalid value"),
    ],
)
def test_a_config_that_makes_no_sense(
    candle: Runtime, bert: Path, changes: dict[str, Any], said: str
) -> None:
    made.change_config(bert, changes)
    with made.load_fails(said):
        candle.load(made.load(bert))


def test_a_model_that_does_not_fit(
    candle: Runtime, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library reads how much memory is free, unless it is told; it is asked for no tensor then."""
    monkeypatch.setenv("CANDDING_TEST_MEMORY_BUDGET", "1000")
    with pytest.raises(OutOfMemory, match="bert did not fit"):
        candle.load(made.load(bert))


def test_weights_in_several_files(candle: Runtime, bert: Path) -> None:
    one = TorchRuntime()
    one.load(made.load(bert))
    expected = made.vectors(made.run(one, ITEMS))
    tensors = load_file(bert / "model.safetensors")
    (bert / "model.safetensors").unlink()
    names = {name: f"part-{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in set(names.values()):
        save_file({n: t for n, t in tensors.items() if names[n] == file}, bert / file)
    index = bert / "model.safetensors.index.json"
    index.write_bytes(msgspec.json.encode({"weight_map": names}))
    candle.load(made.load(bert))
    np.testing.assert_allclose(made.vectors(made.run(candle, ITEMS)), expected, atol=1e-5)
    index.write_bytes(msgspec.json.encode({"weight_map": {"a": "../outside.safetensors"}}))
    with made.load_fails("outside the folder"):
        candle.load(made.load(bert))

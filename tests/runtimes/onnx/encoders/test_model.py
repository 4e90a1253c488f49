"""What an encoder makes of batches and of what it is told to load."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from transformers import BertForTokenClassification, BertModel

from shoal.errors import ModelLoadFailed
from shoal.runtimes.batch import Batch
from shoal.runtimes.onnx.encoders import model as encoders
from shoal.runtimes.onnx.encoders.model import EncoderModel
from shoal.runtimes.onnx.export.build import Model, exported
from shoal.runtimes.onnx.export.products import Weights
from shoal.wire.socket import Load
from tests.catalog.convert.onnx_files import field, node
from tests.runtimes.torch.made import VOCABULARY, cosines, pooled, random_items, save_bert

MEAN = {"dense": {"head": "dense", "pooling": "mean"}}


def batch(items: list[list[int]]) -> Batch:
    tokens = np.array([token for item in items for token in item], np.int32)
    return Batch(tokens, np.array([len(item) for item in items], np.int64))


def load_of(folder: Path, weights: Weights = "float32", **changes: Any) -> Load:
    heads = changes.get("heads", MEAN)
    made = exported(Model(folder, "bert", heads, weights), str(folder / "cache"))
    fields: dict[str, Any] = {"heads": heads, "max_tokens": 64}
    return Load("m", str(made), "bert", **(fields | changes))


def dense(model: EncoderModel, items: list[list[int]]) -> Any:
    return model.run(batch(items), ["dense"]).outputs["dense"].values


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_neighbours_make_no_difference(tmp_path: Path, weights: Weights) -> None:
    """In 8 bits too: what a row is rounded to depends on that row alone."""
    save_bert(tmp_path)
    model = EncoderModel(load_of(tmp_path, weights), threads=1)
    items = random_items([7, 1, 64, 3, 20, 3])
    together = dense(model, items)
    for item, row in zip(items, together, strict=True):
        np.testing.assert_allclose(dense(model, [item])[0], row, atol=2e-6)


def test_8_bits_are_near(tmp_path: Path) -> None:
    reference = save_bert(tmp_path, hidden_size=64, initializer_range=0.1)
    model = EncoderModel(load_of(tmp_path, "int8"), threads=1)
    items = random_items([7, 64, 20, 33])
    near = cosines(dense(model, items), pooled(reference, items, "mean"))
    assert 0.995 < near.min() < 0.9999999


def test_passes_restore_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "PASS_TOKENS", 16)
    reference = save_bert(tmp_path)
    model = EncoderModel(load_of(tmp_path), threads=1)
    items = random_items([7, 1, 64, 3, 20, 3, 9])
    np.testing.assert_allclose(dense(model, items), pooled(reference, items, "mean"), atol=1e-5)


def test_what_is_computed_is_counted_without_padding(tmp_path: Path) -> None:
    save_bert(tmp_path)
    model = EncoderModel(load_of(tmp_path), threads=1)
    assert model.run(batch(random_items([7, 1, 64])), ["dense"]).computed_tokens == 72


def test_a_bad_item_fails_alone(tmp_path: Path) -> None:
    reference = save_bert(tmp_path)
    model = EncoderModel(load_of(tmp_path, max_tokens=20), threads=1)
    items = [*random_items([5, 21]), [], [VOCABULARY], [-1], *random_items([9], seed=4)]
    said = model.run(batch(items), ["dense"])
    codes = {place: info.code for place, info in said.failed.items()}
    assert codes == {1: "too_many_tokens", 2: "invalid_item", 3: "invalid_item", 4: "invalid_item"}
    good = pooled(reference, [items[0], items[5]], "mean")
    np.testing.assert_allclose(said.outputs["dense"].values[[0, 5]], good, atol=1e-5)


def test_two_heads_of_one_pass(tmp_path: Path) -> None:
    reference = save_bert(tmp_path, BertForTokenClassification, num_labels=5)
    heads = {"extract": {"head": "token-labels"}, "dense": {"head": "dense", "pooling": "cls"}}
    model = EncoderModel(load_of(tmp_path, heads=heads), threads=1)
    items = random_items([7, 20])
    said = model.run(batch(items), ["extract", "dense"]).outputs
    lengths = said["extract"].lengths
    assert lengths is not None
    assert lengths.tolist() == [7, 20]
    assert said["extract"].values.shape == (27, 5)
    np.testing.assert_allclose(
        said["dense"].values, pooled(reference.bert, items, "cls"), atol=1e-5
    )


def _missing(folder: Path, load: Load) -> Load:
    return msgspec.structs.replace(load, path=str(folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_missing, r"has no model.onnx; `shoal models export MODEL --to onnx` makes"),
        (lambda _, load: msgspec.structs.replace(load, options={"weight": "int8"}), "weight"),
        (lambda _, load: msgspec.structs.replace(load, dtype="bfloat16"), "dtype is bfloat16"),
        (lambda _, load: msgspec.structs.replace(load, max_tokens=65), "allow 1 to 64"),
        (
            lambda _, load: msgspec.structs.replace(load, heads={"x": {"head": "splade"}}),
            "no head 'splade'",
        ),
        (
            lambda _, load: msgspec.structs.replace(load, heads={"x": {"head": "token-labels"}}),
            "gives hidden and no 'tokens'",
        ),
    ],
)
def test_what_cannot_be_loaded(
    tmp_path: Path, change: Callable[[Path, Load], Load], message: str
) -> None:
    save_bert(tmp_path)
    with pytest.raises(ModelLoadFailed, match=message):
        EncoderModel(change(tmp_path, load_of(tmp_path)), threads=1)


def test_a_graph_of_another_exporter(tmp_path: Path) -> None:
    """As optimum writes them, padded: here one that gives a token's id, three times, as its state."""
    save_bert(tmp_path)
    made = tmp_path / "cache-foreign"
    made.mkdir()
    (made / "config.json").write_bytes((tmp_path / "config.json").read_bytes())
    (made / "model.onnx").write_bytes(_foreign())
    load = msgspec.structs.replace(load_of(tmp_path), path=str(made))
    model = EncoderModel(load, threads=1)
    said = model.run(batch([[2, 4], [7, 7, 7, 7]]), ["dense"])
    assert said.outputs["dense"].values.tolist() == [[3, 3, 3], [7, 7, 7]]
    assert said.computed_tokens == 8


def _foreign() -> bytes:
    def value(name: str, kind: int, *sizes: int | str) -> bytes:
        shape = b"".join(field(1, field(1 if isinstance(n, int) else 2, n)) for n in sizes)
        return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))

    nodes = [
        node("Cast", "", ["input_ids"], "numbers", to=1),
        node("Unsqueeze", "", ["numbers", "last"], "column"),
        node("Concat", "", ["column"] * 3, "last_hidden_state", axis=2),
    ]
    last = field(1, 1) + field(2, 7) + field(8, "last") + field(9, (2).to_bytes(8, "little"))
    parts = [field(1, each) for each in nodes] + [field(2, "g"), field(5, last)]
    parts += [field(11, value(name, 7, "b", "l")) for name in ("input_ids", "attention_mask")]
    parts += [field(12, value("last_hidden_state", 1, "b", "l", 3))]
    return field(1, 8) + field(7, b"".join(parts)) + field(8, field(2, 13))


def test_memory_goes_back(tmp_path: Path) -> None:
    """What `bytes` says is what a process holds more, as long as the model is there.

    In a process of its own: in this one, what other tests leave may go or come meanwhile.
    """
    save_bert(tmp_path, BertModel, hidden_size=256, intermediate_size=1024, num_hidden_layers=6)
    load = load_of(tmp_path)
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        held, left = fresh.submit(_held_and_left, load).result()
    weights = sum(path.stat().st_size for path in Path(load.path).glob("model.onnx*"))
    assert 0.7 * weights < held < 1.3 * weights
    assert left < 0.2 * weights


def _held_and_left(load: Load) -> tuple[int, int]:
    """Bytes that this process has more with the model, and once it is gone."""
    from shoal.runtimes.process import rss_bytes, trim

    EncoderModel(load, threads=1).warm_up()  # what the library itself takes
    trim()
    before = rss_bytes()
    model = EncoderModel(load, threads=1)
    model.warm_up()
    trim()
    held = rss_bytes() - before
    del model
    trim()
    return held, rss_bytes() - before

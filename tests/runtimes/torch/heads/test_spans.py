"""What the head of spans needs of a folder, and what it answers for items that have nothing to score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from shoal.errors import InvalidRequest
from shoal.runtimes.batch import Batch
from shoal.runtimes.torch.model import Model
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import to_wire
from shoal.wire.outputs import Output
from shoal.wire.socket import Run
from tests.runtimes.torch import gliner, made

HEADS = {"extract": {"head": "spans"}}


def folder_of(path: Path, **changes: Any) -> Path:
    made.save_bert(path)
    gliner.wrap(path, **changes)
    return path


def loaded(folder: Path, **changes: Any) -> Model:
    return Model(made.load(folder, heads=HEADS, **changes), torch.device("cpu"))


def change(folder: Path, **changes: Any) -> None:
    path = folder / "gliner_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def lengths_of(output: Output) -> list[int]:
    assert output.lengths is not None
    return [int(length) for length in output.lengths]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"span_mode": "token_level"}, r"gliner_config.json: .*token_level.*span_mode"),
        ({"fuse_layers": True}, "fuse_layers"),
        ({"post_fusion_schema": "l2l-l2t"}, "post_fusion_schema"),
        ({"labels_encoder": "a/b"}, "labels_encoder"),
        ({"labels_decoder": "a/b"}, "labels_decoder"),
        ({"relations_layer": "gcn"}, "relations_layer"),
        ({"span_encoder_config": {"model_type": "rnn"}}, "span_encoder_config"),
        ({"encoder_config": None}, "no encoder_config; save it anew with gliner: `GLiNER"),
        ({"encoder_config": {"model_type": "bert"}}, "encoder_config: .*missing.*vocab_size"),
        ({"hidden_size": 16}, r"token_rep_layer.projection.weight|hidden_size is 16"),
        ({"num_rnn_layers": 2}, "missing tensor: rnn.lstm.weight_ih_l1"),
    ],
)
def test_what_is_not_computed_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    change(folder_of(tmp_path), **changes)
    with made.load_fails(said):
        loaded(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "token_rep_layer.projection.bias",
        "token_rep_layer.bert_layer.model.embeddings.LayerNorm.weight",
        "rnn.lstm.bias_hh_l0_reverse",
        "span_rep_layer.span_rep_layer.out_project.3.bias",
        "prompt_rep_layer.0.weight",
    ],
)
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    path = folder_of(tmp_path) / "model.safetensors"
    save_file({stored: t for stored, t in load_file(path).items() if stored != name}, path)
    with made.load_fails(name.removeprefix("token_rep_layer.bert_layer.model.")):
        loaded(tmp_path)


def test_items_without_words_or_labels_have_no_rows(tmp_path: Path) -> None:
    model = loaded(folder_of(tmp_path))
    marks = np.array([[0, 0, 0], [1, 1, 0], [2, 2, 0], [2, 1, 1]], np.uint8)
    tokens, lengths = np.arange(12, dtype=np.int32), np.array([3, 3, 3, 3, 0], np.int64)
    said = model.run(Batch(tokens, lengths, marks=marks.ravel()), ["extract"])
    assert list(said.failed) == [4]
    assert lengths_of(said.outputs["extract"]) == [0, 0, 0, 3, 0]
    assert said.outputs["extract"].values.any()


def test_a_batch_without_marks_has_no_rows(tmp_path: Path) -> None:
    """As a probe has, which asks only whether anything is computed."""
    said = loaded(folder_of(tmp_path)).run(
        Batch(np.ones(5, np.int32), np.array([2, 3], np.int64)), ["extract"]
    )
    assert lengths_of(said.outputs["extract"]) == [0, 0]


def test_in_bfloat16_the_likeliest_span_is_the_same(tmp_path: Path) -> None:
    folder_of(tmp_path)
    rng = np.random.default_rng(2)
    batch = Batch(
        rng.integers(0, made.VOCABULARY, 60).astype(np.int32),
        np.array([60], np.int64),
        marks=np.array([2] * 3 + [1] * 57, np.uint8),
    )
    rows = [
        loaded(tmp_path, dtype=dtype).run(batch, ["extract"]).outputs["extract"].values
        for dtype in ("float32", "bfloat16")
    ]
    assert rows[0].argmax() == rows[1].argmax()
    np.testing.assert_allclose(rows[1], rows[0], atol=0.05 * np.abs(rows[0]).max())


def test_all_that_it_holds_is_counted(tmp_path: Path) -> None:
    model = loaded(folder_of(tmp_path))
    tensors = load_file(tmp_path / "model.safetensors")
    counted = {name: t for name, t in tensors.items() if "pooler" not in name}
    assert model._parameter_bytes == sum(t.nbytes for t in counted.values())


def test_marks_must_fit_the_tokens(tmp_path: Path) -> None:
    runtime = TorchRuntime()
    runtime.load(made.load(folder_of(tmp_path), heads=HEADS))
    tokens, lengths = np.ones(3, np.int32), np.array([3], np.int32)
    wrong: list[tuple[Any, str]] = [
        (np.ones(2, np.uint8), "2 marks came with 3 tokens"),
        (np.ones(3, np.int32), "marks must be uint8"),
    ]
    for marks, said in wrong:
        run = Run(1, "m", ["extract"], to_wire(tokens), to_wire(lengths), marks=to_wire(marks))
        with pytest.raises(InvalidRequest, match=said):
            runtime.run(run)

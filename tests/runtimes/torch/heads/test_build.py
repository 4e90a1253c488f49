"""What is loaded for which heads, and what is said where something is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers.base.modules import Dense
from transformers import (
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)

from shoal.runtimes.torch.model import Model
from tests.runtimes.torch import made
from tests.runtimes.torch.families.rows import ROWS

Heads = dict[str, dict[str, Any]]


def loaded(folder: Path, heads: Heads) -> Model:
    return Model(made.load(folder, heads=heads), torch.device("cpu"))


def drop(folder: Path, name: str) -> None:
    path = folder / "model.safetensors"
    save_file({stored: t for stored, t in load_file(path).items() if stored != name}, path)


@pytest.mark.parametrize(
    ("kind", "head", "stored", "named"),
    [
        (BertForMaskedLM, "splade", "cls.predictions.bias", "cls.predictions.bias"),
        (
            BertForMaskedLM,
            "splade",
            "cls.predictions.transform.dense.weight",
            "cls.predictions.transform.dense.weight",
        ),
        (
            BertForMaskedLM,
            "splade",
            "cls.predictions.transform.LayerNorm.bias",
            "cls.predictions.transform.LayerNorm.bias",
        ),
        (
            BertForSequenceClassification,
            "cross-encoder",
            "bert.pooler.dense.bias",
            "pooler.dense.bias",
        ),
        (
            BertForSequenceClassification,
            "sequence-labels",
            "classifier.weight",
            "classifier.weight",
        ),
        (BertForTokenClassification, "token-labels", "classifier.bias", "classifier.bias"),
        (BertModel, "colbert", "", "linear.weight"),
        (BertModel, "lexical", "", "sparse_linear.weight"),
    ],
)
def test_a_missing_tensor_is_named(
    tmp_path: Path, kind: type[Any], head: str, stored: str, named: str
) -> None:
    made.save_bert(tmp_path, kind)
    drop(tmp_path, stored)
    with made.load_fails(rf"head '{head}': .*missing tensor: {named}"):
        loaded(tmp_path, {"out": {"head": head}})
    loaded(tmp_path, {"dense": {}})  # whose tensors are all there


def test_a_head_that_does_not_fit_is_named(tmp_path: Path) -> None:
    made.save_bert(tmp_path, BertForTokenClassification)
    path = tmp_path / "model.safetensors"
    save_file(load_file(path) | {"classifier.weight": torch.zeros(2, 31)}, path)
    with made.load_fails(r"classifier\.weight is \[2, 31\], not \['any', 32\]"):
        loaded(tmp_path, {"extract": {"head": "token-labels"}})


def test_labels_of_the_card_must_be_as_many_as_the_models(tmp_path: Path) -> None:
    made.save_bert(tmp_path, BertForTokenClassification, num_labels=3)
    loaded(tmp_path, {"extract": {"head": "token-labels", "labels": ["O", "B", "I"]}})
    with made.load_fails("the card says 2 labels and the model has 3"):
        loaded(tmp_path, {"extract": {"head": "token-labels", "labels": ["O", "B"]}})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"head": "dence"}, "no head 'dence'.*did you mean 'dense'"),
        ({"head": "dense", "pooling": "meen"}, "no pooling 'meen'.*did you mean 'mean'"),
        ({"head": "splade", "activation": "log"}, "head 'splade'.*'log'"),
        ({"head": "lexical", "skip": ["a"]}, "head 'lexical'.*skip"),
        ({"head": "yes-no", "yes": 1}, "head 'yes-no'.*`no`"),
        ({"head": "yes-no", "yes": 1, "no": 2}, "this family generates nothing"),
    ],
)
def test_options_that_mean_nothing(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    made.save_bert(tmp_path)
    with made.load_fails(said):
        loaded(tmp_path, {"out": options})


def test_only_the_tensors_of_asked_heads_are_counted(tmp_path: Path) -> None:
    """A checkpoint with every head: each costs what its own tensors take, and its widest pass."""
    made.save_bert(tmp_path, BertForPreTraining)
    vocabulary, width = made.VOCABULARY, 32
    bare = loaded(tmp_path, {}).bytes
    assert loaded(tmp_path, {"dense": {}}).bytes == bare
    decoder = 4 * (vocabulary * width + vocabulary)
    transform = 4 * (width * width + 3 * width)
    chunk = 2 * 4 * 256 * vocabulary
    assert loaded(tmp_path, {"sparse": {"head": "splade"}}).bytes == (
        bare + decoder + transform + chunk
    )


def test_activations_are_those_of_the_widest_head(tmp_path: Path) -> None:
    made.save_bert(tmp_path, BertForTokenClassification, num_labels=40)
    path = tmp_path / "model.safetensors"
    save_file(load_file(path) | {"linear.weight": torch.zeros(12, 32)}, path)
    heads: Heads = {"multivector": {"head": "colbert"}, "extract": {"head": "token-labels"}}
    bare, both = loaded(tmp_path, {}).bytes, loaded(tmp_path, heads).bytes
    assert both - bare == 4 * (12 * 32 + 40 * 32 + 40) + 2048 * 40 * 4


def test_of_a_generators_table_only_two_rows_are_read(tmp_path: Path) -> None:
    ROWS["qwen3"].make("generator", tmp_path)
    heads: Heads = {"score": {"head": "yes-no", "yes": 3, "no": 5}}
    bare, asked = (
        Model(made.load(tmp_path, family="qwen3", heads=given), torch.device("cpu")).bytes
        for given in (cast(Heads, {}), heads)
    )
    assert asked - bare == 2 * 4 * 32
    heads["score"]["no"] = made.VOCABULARY
    with made.load_fails("token id 101 is not in 0 to 100"):
        Model(made.load(tmp_path, family="qwen3", heads=heads), torch.device("cpu"))


# --- projections --------------------------------------------------------------------------


def dense_module(folder: Path, **changes: Any) -> None:
    (folder / "2_Dense").mkdir()
    Dense(**({"in_features": 32, "out_features": 8} | changes)).save(str(folder / "2_Dense"))


PROJECTED: Heads = {"dense": {"projections": ["2_Dense"]}}


def test_a_projection_counts(tmp_path: Path) -> None:
    made.save_bert(tmp_path)
    dense_module(tmp_path)
    assert loaded(tmp_path, PROJECTED).bytes - loaded(tmp_path, {}).bytes == 4 * (8 * 32 + 8)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"activation_function": torch.nn.Softsign()}, "Softsign; computed are Identity, Tanh"),
        ({"use_residual": True}, "use_residual"),
        ({"in_features": 31}, r"linear\.weight is \[8, 31\], not \['any', 32\]"),
    ],
)
def test_a_module_that_computes_otherwise(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    made.save_bert(tmp_path)
    dense_module(tmp_path, **changes)
    with made.load_fails(f"head 'dense': .*2_Dense.*{said}"):
        loaded(tmp_path, PROJECTED)


def test_a_module_saved_as_a_pickle(tmp_path: Path) -> None:
    made.save_bert(tmp_path)
    dense_module(tmp_path)
    (tmp_path / "2_Dense" / "model.safetensors").rename(tmp_path / "2_Dense" / "pytorch_model.bin")
    with made.load_fails(r"2_Dense holds weights only as pytorch_model\.bin"):
        loaded(tmp_path, PROJECTED)


def test_a_unit_of_lexical_gives_one_number(tmp_path: Path) -> None:
    made.save_bert(tmp_path)
    dense_module(tmp_path)
    with made.load_fails("needs one number a token; '2_Dense' gives 8"):
        loaded(tmp_path, {"sparse": {"head": "lexical", "projection": "2_Dense"}})

"""Every family that the candle runtime names, against the reference library, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from shoal.runtimes.base import Runtime
from shoal.runtimes.candle.configs import FAMILIES
from tests.runtimes.torch import made
from tests.runtimes.torch.families.row import Kind
from tests.runtimes.torch.families.rows import ROWS

#: A tensor that no encoder has.
HEAD = torch.ones(3)
#: In this order: several to a pass, some padded, some alone.
LENGTHS = [7, 1, 62, 3, 3, 20, 7, 33, 60, 62, 58]

#: Family -> changes to the tiny config of its row, one set a check.
COMPUTED: dict[str, tuple[dict[str, Any], ...]] = {
    "bert": ROWS["bert"].variants,
    "gemma3": ({"use_bidirectional_attention": True},),
    "gte": ({"type_vocab_size": 0}, {"type_vocab_size": 1}),
    "modernbert": ({}, {"rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 50.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    }}),
    "mpnet": ({},),
    "nomic": ({},),
    "qwen3": ({"head_dim": 16}, {"head_dim": 8, "is_causal": False, "num_key_value_heads": 4}),
    "roberta": ROWS["roberta"].variants,
}  # fmt: skip

#: Family -> changes after which the library would compute something else, and what is said.
REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("bert", {"is_decoder": True}, "is_decoder"),
    ("bert", {"hidden_act": "quick_gelu"}, "quick_gelu"),
    ("gemma3", {}, "without bidirectional attention"),
    ("gte", {"logn_attention_scale": True}, "logn_attention_scale"),
    ("modernbert", {"layer_types": ["sliding_attention"] * 4}, "layer 0 is not of a pattern of 3"),
    ("modernbert", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "yarn"),
    ("nomic", {"use_rms_norm": True}, "use_rms_norm"),
    ("nomic", {"qkv_proj_bias": True}, "qkv_proj_bias"),
    ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
    ("qwen3", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
    ("qwen3", {"attention_bias": True}, "attention bias"),
    ("roberta", {"is_decoder": True}, "is_decoder"),
)

#: As their publishers store them, for code of their own: what `transformers` writes otherwise.
NOMIC: dict[str, Any] = {
    "model_type": "nomic_bert", "vocab_size": 101, "type_vocab_size": 2, "n_embd": 32,
    "n_inner": 64, "n_layer": 2, "n_head": 4, "n_positions": 64,
    "activation_function": "swiglu", "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "prenorm": False,
    "causal": False, "qkv_proj_bias": False,
}  # fmt: skip
GTE: dict[str, Any] = {"model_type": "new", "rope_parameters": None, "rope_theta": 10_000.0}
GTE_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}}


def saved(family: str, folder: Path, changes: dict[str, Any]) -> Any:
    """The reference's model, stored as `family` is published."""
    if family == "gte":
        changes = GTE_ROPE | changes
    reference = ROWS[family].make("encoder", folder, **changes)
    if family == "nomic":
        made.replace_config(folder, NOMIC)
    if family == "gte":
        made.change_config(folder, GTE)
    return reference


def items_of(family: str) -> list[list[int]]:
    row = ROWS[family]
    rng = np.random.default_rng(3)
    return [rng.integers(row.first_token, made.VOCABULARY, n).tolist() for n in LENGTHS]


def test_each_family_is_checked() -> None:
    assert COMPUTED.keys() == FAMILIES.keys()


@pytest.mark.parametrize(
    ("family", "changes"),
    [(family, changes) for family, variants in COMPUTED.items() for changes in variants],
)
@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_a_family(
    candle: Runtime, tmp_path: Path, family: str, changes: dict[str, Any], pooling: str
) -> None:
    reference = saved(family, tmp_path, changes)
    heads = {"dense": {"head": "dense", "pooling": pooling}}
    candle.load(made.load(tmp_path, family=family, heads=heads, max_tokens=62))
    items = items_of(family)
    done = made.run(candle, items)
    assert not done.failed
    assert done.computed_tokens >= sum(LENGTHS)
    expected = made.pooled(reference, items, pooling)
    np.testing.assert_allclose(made.vectors(done), expected, atol=5e-5)


@pytest.mark.parametrize(("family", "changes", "said"), REFUSED)
def test_what_it_would_compute_otherwise_is_refused(
    candle: Runtime, tmp_path: Path, family: str, changes: dict[str, Any], said: str
) -> None:
    saved(family, tmp_path, {})
    made.change_config(tmp_path, changes)
    with made.load_fails(said):
        candle.load(made.load(tmp_path, family=family, max_tokens=62))


#: Family -> what stands before the encoder's tensors where a head is around it.
PREFIXES = {
    "bert": ("bert.",),
    "gemma3": ("model.",),
    "gte": ("new.",),
    "modernbert": ("model.",),
    "mpnet": ("mpnet.",),
    "nomic": ("nomic_bert.", "bert."),
    "qwen3": ("model.",),
    "roberta": ("roberta.",),
}


@pytest.mark.parametrize(
    ("family", "prefix"), [(family, one) for family, own in PREFIXES.items() for one in own]
)
def test_tensors_of_a_model_with_a_head_around_it(
    candle: Runtime, tmp_path: Path, family: str, prefix: str
) -> None:
    assert PREFIXES.keys() == FAMILIES.keys()
    reference = saved(family, tmp_path, COMPUTED[family][0])
    file = tmp_path / "model.safetensors"
    stored = load_file(file)
    save_file({f"{prefix}{name}": one for name, one in stored.items()} | {"head": HEAD}, file)
    heads = {"dense": {"head": "dense", "pooling": "mean"}}
    candle.load(made.load(tmp_path, family=family, heads=heads, max_tokens=62))
    items = items_of(family)
    expected = made.pooled(reference, items, "mean")
    np.testing.assert_allclose(made.vectors(made.run(candle, items)), expected, atol=5e-5)


@pytest.mark.parametrize("kind", ["masked-lm", "sequence", "tokens"])
@pytest.mark.parametrize("family", ["bert", "modernbert", "mpnet", "roberta"])
def test_what_the_reference_saves_of_a_model_with_a_head(
    candle: Runtime, tmp_path: Path, family: str, kind: Kind
) -> None:
    reference = ROWS[family].make(kind, tmp_path)
    heads = {"dense": {"head": "dense", "pooling": "mean"}}
    candle.load(made.load(tmp_path, family=family, heads=heads, max_tokens=62))
    items = items_of(family)
    expected = made.pooled(reference.base_model, items, "mean")
    np.testing.assert_allclose(made.vectors(made.run(candle, items)), expected, atol=5e-5)

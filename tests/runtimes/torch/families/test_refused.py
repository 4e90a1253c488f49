"""A config that computes otherwise than the family does is refused by its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made
from tests.runtimes.torch.families.near_llama import NEAR_LLAMA
from tests.runtimes.torch.families.rows import ROWS

NEAR_LLAMA_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "phi3"}, "model_type"),
    ({"hidden_act": "swish"}, "hidden_act"),
    ({"num_key_value_heads": 3}, "num_attention_heads 4 is no multiple of num_key_value_heads 3"),
    ({"num_attention_heads": 5, "head_dim": None}, "hidden_size 32 is no multiple"),
    ({"rope_parameters": {"rope_type": "longrope"}}, "rope_type"),
    ({"rope_scaling": {"type": "yarn"}}, "'yarn' needs factor"),
]

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("distilbert", {"model_type": "bert"}, "model_type"),
    ("distilbert", {"activation": "mish"}, "activation"),
    ("distilbert", {"dim": "wide"}, "dim"),
    ("distilbert", {"n_heads": 5}, "dim 32 is no multiple of n_heads 5"),
    ("distilbert", {"n_heads": 0}, "dim 32 is no multiple of n_heads 0"),
    ("roberta", {"model_type": "longformer"}, "model_type"),
    ("roberta", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("roberta", {"is_decoder": True}, "is_decoder"),
    ("roberta", {"hidden_act": "mish"}, "hidden_act"),
    ("albert", {"inner_group_num": 2}, "inner_group_num"),
    ("albert", {"num_hidden_groups": 3}, "num_hidden_groups 3 must be from 1"),
    ("albert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("electra", {"is_decoder": True}, "is_decoder"),
    ("electra", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("deberta", {"model_type": "deberta"}, "model_type"),
    ("deberta", {"position_biased_input": True}, "position_biased_input"),
    ("deberta", {"type_vocab_size": 2}, "type_vocab_size"),
    ("deberta", {"conv_kernel_size": 3}, "conv_kernel_size"),
    ("deberta", {"norm_rel_ebd": "batch_norm"}, "norm_rel_ebd"),
    ("deberta", {"pos_att_type": "p2c|p2p"}, "pos_att_type has p2p; computed are c2p, p2c"),
    ("deberta", {"embedding_size": 16}, "embedding_size 16 differs"),
    ("deberta", {"attention_head_size": 16}, "attention_head_size 16 differs"),
    ("deberta", {"position_buckets": 130}, "position_buckets 130 needs max_relative_positions"),
    ("mpnet", {"relative_attention_num_buckets": 16}, "relative_attention_num_buckets"),
    ("mpnet", {"num_attention_heads": 5}, "hidden_size 32 is no multiple of num_attention_heads"),
    ("t5", {"model_type": "umt5"}, "model_type"),
    ("t5", {"feed_forward_proj": "gated-silu"}, "feed_forward_proj"),
    ("t5", {"is_decoder": True}, "is_decoder"),
    ("t5", {"relative_attention_num_buckets": 6}, "relative_attention_num_buckets 6 must be"),
    ("t5", {"relative_attention_max_distance": 8}, "relative_attention_max_distance 8 more"),
    ("roberta", {"num_attention_heads": 5}, "hidden_size 32 is no multiple of num_attention_heads"),
    ("modernbert", {"model_type": "modernbert-decoder"}, "model_type"),
    ("modernbert", {"hidden_activation": "swish"}, "hidden_activation"),
    ("modernbert", {"num_attention_heads": 5}, "hidden_size 32 is no multiple of num_attention_"),
    ("modernbert", {"layer_types": ["full_attention"]}, "layer_types names 1 layers, .* says 4"),
    ("modernbert", {"layer_types": ["linear_attention"] * 4}, "layer_types"),
    ("modernbert", {"rope_parameters": {"full_attention": {"type": "su"}}}, "type"),
    ("modernbert", {"local_attention": None}, "local_attention"),
    ("nomic", {"model_type": "bert"}, "model_type"),
    ("nomic", {"hidden_size": None}, "neither hidden_size nor n_embd is there"),
    ("nomic", {"num_attention_heads": 5}, "hidden_size 32 is no multiple of num_attention_heads 5"),
    (
        "nomic",
        {"n_embd": 32, "n_inner": 1, "n_layer": 1, "n_head": 5, "n_positions": 1},
        "n_embd 32 is no multiple of n_head 5",
    ),
    ("nomic", {"activation_function": "gelu"}, "activation_function"),
    ("nomic", {"num_experts": 8}, "num_experts"),
    ("nomic", {"prenorm": True}, "prenorm"),
    ("nomic", {"rotary_emb_interleaved": True}, "rotary_emb_interleaved"),
    ("nomic", {"rotary_emb_fraction": 0.0}, "rotary_emb_fraction 0.0"),
    ("gte", {"model_type": "bert"}, "model_type"),
    ("gte", {"num_attention_heads": 5}, "hidden_size 32 is no multiple of num_attention_heads 5"),
    ("gte", {"position_embedding_type": "absolute"}, "position_embedding_type"),
    ("gte", {"layer_norm_type": "rms_norm"}, "layer_norm_type"),
    ("gte", {"logn_attention_scale": True}, "logn_attention_scale"),
    ("gte", {"pack_qkv": False}, "pack_qkv"),
    ("gte", {"rope_scaling": {"type": "ntk"}}, "'ntk' needs factor"),
    *(
        (row.family, *case)
        for row in NEAR_LLAMA
        if row.family != "gemma3"
        for case in NEAR_LLAMA_REFUSED
    ),
    ("llama", {"head_dim": 7}, "7 dimensions of a head cannot turn in pairs"),
    ("gemma3", {"model_type": "gemma3"}, "model_type"),
    ("gemma3", {"attn_logit_softcapping": 30.0}, "attn_logit_softcapping"),
    ("gemma3", {"num_key_value_heads": 3}, "num_attention_heads 4 is no multiple of num_key_"),
    ("gemma3", {"layer_types": ["full_attention"]}, "layer_types names 1 layers, .* says 4"),
    ("gemma3", {"rope_scaling": {"rope_type": "longrope"}}, "rope_type"),
    ("qwen3", {"layer_types": ["full_attention"]}, "layer_types names 1 layers"),
    ("qwen2", {"layer_types": ["sliding_attention"] * 2}, "use_sliding_window is off"),
    ("smollm3", {"no_rope_layers": [1]}, "no_rope_layers names 1 layers"),
    ("smollm3", {"no_rope_layers": [1, 2, 1, 1]}, "no_rope_layers"),
]


@pytest.mark.parametrize(("family", "change", "said"), REFUSED, ids=str)
def test_a_config_that_computes_otherwise_is_refused(
    runtime: TorchRuntime, tmp_path: Path, family: str, change: dict[str, Any], said: str
) -> None:
    row = ROWS[family]
    row.make("encoder", tmp_path)
    made.change_config(tmp_path, change)
    with made.load_fails(rf"config\.json.*{said}"):
        runtime.load(made.load(tmp_path, family=family, max_tokens=row.max_tokens))

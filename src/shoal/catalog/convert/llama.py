"""A Llama of llama.cpp -> the same as Hugging Face saves it: names, configuration, tokenizer.

Source: `convert_hf_to_gguf.py` of https://github.com/ggml-org/llama.cpp, backwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from shoal.catalog.convert.gguf import read_gguf
from shoal.catalog.convert.tensors import Array, Found, Tensor, read_as

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
#: `tokenizer.ggml.pre`, how text is cut before merging -> what tokenizers calls that.
_CUTS: dict[str, list[dict[str, Any]]] = {
    "gpt-2": [],
    "smollm": [{"type": "Digits", "individual_digits": True}],
}
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
#: `tokenizer.ggml.token_type` of tokens that no text gives.
_CONTROL = 3
#: What a token is for, in tokenizer_config.json -> the key of its id.
_ROLES = {
    "bos_token": "tokenizer.ggml.bos_token_id",
    "eos_token": "tokenizer.ggml.eos_token_id",
    "unk_token": "tokenizer.ggml.unknown_token_id",
    "pad_token": "tokenizer.ggml.padding_token_id",
}


def read(files: list[Path], folder: Path) -> Found:
    """The tensors, config.json and the tokenizer's files of a Llama. Raises `SourceError`."""
    [file] = files
    found = read_gguf(file)
    with read_as(f"{file.name}: not a Llama as it is known here"):
        config = _config(found.metadata, tied="output.weight" not in found.tensors)
        tensors = {
            _name(own): _unrotated(own, tensor, config) for own, tensor in found.tensors.items()
        }
        return Found(tensors, config, _files(found.metadata))


def _config(metadata: Mapping[str, Any], *, tied: bool) -> dict[str, Any]:
    if (architecture := metadata["general.architecture"]) != "llama":
        raise ValueError(f"its architecture is {architecture}")
    said = {k.removeprefix("llama."): v for k, v in metadata.items() if k.startswith("llama.")}
    heads = said["attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "hidden_size": said["embedding_length"],
        "intermediate_size": said["feed_forward_length"],
        "num_hidden_layers": said["block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": said.get("attention.head_count_kv", heads),
        "max_position_embeddings": said["context_length"],
        # 1e-5 has no exact float32.
        "rms_norm_eps": float(f"{said['attention.layer_norm_rms_epsilon']:.3g}"),
        "rope_theta": said.get("rope.freq_base", 10000.0),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
    }


def _name(own: str) -> str:
    if own in _TOP:
        return _TOP[own]
    block, number, part, end = own.split(".")
    if block != "blk" or end != "weight":
        raise ValueError(f"unknown tensor '{own}'")
    return f"model.layers.{int(number)}.{_PARTS[part]}.weight"


def _unrotated(own: str, tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    """Queries and keys with the halves of each head apart, as Hugging Face rotates them.

    llama.cpp has the two numbers that are rotated together beside each other.
    """
    part = own.split(".")[-2]
    counts = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
    if part not in counts:
        return tensor
    heads = config[counts[part]]

    def read() -> Array:
        pairs = tensor.read().reshape(heads, -1, 2, tensor.shape[-1])
        return pairs.swapaxes(1, 2).reshape(tensor.shape)

    return Tensor(tensor.shape, read)


def _files(metadata: Mapping[str, Any]) -> dict[str, bytes]:
    files = {
        "tokenizer.json": msgspec.json.encode(_tokenizer(metadata)),
        "tokenizer_config.json": msgspec.json.encode(_roles(metadata)),
    }
    if (template := metadata.get("tokenizer.chat_template")) is not None:
        files["chat_template.jinja"] = template.encode()
    return files


def _roles(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What tokenizer.json does not say: by it alone other libraries know no token that ends a text."""
    tokens = metadata["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": metadata["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        **{role: tokens[metadata[key]] for role, key in _ROLES.items() if key in metadata},
    }


def _tokenizer(metadata: Mapping[str, Any]) -> dict[str, Any]:
    said = {
        k.removeprefix("tokenizer.ggml."): v
        for k, v in metadata.items()
        if k.startswith("tokenizer.ggml.")
    }
    if said["model"] != "gpt2" or said.get("pre") not in _CUTS:
        raise ValueError(
            f"its tokenizer is {said['model']}, {said.get('pre')}; "
            f"known are gpt2, {' or '.join(_CUTS)}"
        )
    if said.get("add_bos_token"):
        raise ValueError("its tokenizer puts a token before every text, which is not known here")
    special = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, (token, kind) in enumerate(zip(said["tokens"], said["token_type"], strict=True))
        if kind == _CONTROL
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*_CUTS[said["pre"]], _BYTES]},
        "post_processor": None,
        "decoder": _BYTES,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(said["tokens"])},
            "merges": said["merges"],
        },
    }

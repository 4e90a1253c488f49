"""An English Whisper of CTranslate2 -> the same as Hugging Face saves it.

Source: `WhisperLoader` in CTranslate2's `converters/transformers.py`, backwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shoal.catalog.convert.ctranslate2 import read_model
from shoal.catalog.convert.tensors import Array, Found, Tensor, read_as, stored

#: Later ones have a token for each language, and their generation needs more settings.
_ENGLISH_VOCABULARY = 51864
_NORMS = {"gamma": "weight", "beta": "bias"}


class _Settings(msgspec.Struct):
    """What CTranslate2 keeps in its config.json."""

    suppress_ids: list[int]
    suppress_ids_begin: list[int]
    alignment_heads: list[list[int]]


class _Added(msgspec.Struct):
    id: int
    content: str


class _Tokenizer(msgspec.Struct):
    added_tokens: list[_Added]


def read(files: list[Path], folder: Path) -> Found:
    """Tensors and configuration of an English Whisper; `folder` has its tokenizer.json.

    Raises:
        SourceError: the file is no such model, or what lies beside it cannot be read.
    """
    [file] = files
    model = read_model(file)
    with read_as(f"{file.name}: not an English Whisper as known here"):
        if model.spec != "WhisperSpec":
            raise ValueError(f"it is a {model.spec}, not a WhisperSpec")
        settings = msgspec.json.decode((folder / "config.json").read_bytes(), type=_Settings)
        tokenizer = msgspec.json.decode((folder / "tokenizer.json").read_bytes(), type=_Tokenizer)
        special = {token.content: token.id for token in tokenizer.added_tokens}
        config = _config(model.variables, special)
        files_beside = {
            "generation_config.json": _generation(settings, special, config),
            "preprocessor_config.json": _sound(config),
        }
        return Found(
            dict(_tensors(model.variables, config)),
            config,
            {name: msgspec.json.encode(content) for name, content in files_beside.items()},
        )


def _config(variables: Mapping[str, Array], special: Mapping[str, int]) -> dict[str, Any]:
    words, width = variables["decoder/embeddings/weight"].shape
    if words != _ENGLISH_VOCABULARY:
        raise ValueError(f"its vocabulary is of {words}, not {_ENGLISH_VOCABULARY}")
    end = special["<|endoftext|>"]
    config = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "vocab_size": words,
        "d_model": width,
        "num_mel_bins": variables["encoder/conv1/weight"].shape[1],
        "max_source_positions": len(variables["encoder/position_encodings/encodings"]),
        "max_target_positions": len(variables["decoder/position_encodings/encodings"]),
        "activation_function": "gelu",
        "scale_embedding": False,
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
        "decoder_start_token_id": special["<|startoftranscript|>"],
    }
    for side in ("encoder", "decoder"):
        inner = variables[f"{side}/layer_0/ffn/linear_0/weight"]
        config[f"{side}_layers"] = sum(
            name.startswith(f"{side}/layer_") and name.endswith("/ffn/layer_norm/gamma")
            for name in variables
        )
        config[f"{side}_attention_heads"] = int(variables[f"{side}/num_heads"])
        config[f"{side}_ffn_dim"] = len(inner)
    return config


def _generation(
    settings: _Settings, special: Mapping[str, int], config: Mapping[str, Any]
) -> dict[str, Any]:
    ids = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
    return {
        **{key: config[key] for key in ids},
        "suppress_tokens": settings.suppress_ids,
        "begin_suppress_tokens": settings.suppress_ids_begin,
        "alignment_heads": settings.alignment_heads,
        "no_timestamps_token_id": special["<|notimestamps|>"],
        # As both CTranslate2 and the hub have it: the first time is at most 1 s.
        "max_initial_timestamp_index": 50,
        "is_multilingual": False,
        "max_length": config["max_target_positions"],
    }


def _sound(config: Mapping[str, Any]) -> dict[str, Any]:
    """What every Whisper listens to: 30 s at 16 kHz, a frame each 10 ms."""
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": config["num_mel_bins"],
        "sampling_rate": 16000,
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": 30,
        "n_samples": 480000,
        "nb_max_frames": 3000,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": False,
    }


def _tensors(
    variables: Mapping[str, Array], config: Mapping[str, Any]
) -> Iterator[tuple[str, Tensor]]:
    own = _Variables(variables)
    yield from own.linear("encoder/conv1", "model.encoder.conv1")
    yield from own.linear("encoder/conv2", "model.encoder.conv2")
    yield own.as_is("decoder/embeddings/weight", "model.decoder.embed_tokens.weight")
    for side in ("encoder", "decoder"):
        top = f"model.{side}"
        positions = f"{side}/position_encodings/encodings"
        yield own.as_is(positions, f"{top}.embed_positions.weight")
        yield from own.norm(f"{side}/layer_norm", f"{top}.layer_norm")
        for number in range(config[f"{side}_layers"]):
            yield from _layer(own, f"{side}/layer_{number}", f"{top}.layers.{number}")


def _layer(own: _Variables, at: str, to: str) -> Iterator[tuple[str, Tensor]]:
    yield from own.norm(f"{at}/self_attention/layer_norm", f"{to}.self_attn_layer_norm")
    fused = f"{at}/self_attention/linear_0"
    yield from own.linear(fused, *(f"{to}.self_attn.{part}_proj" for part in "qkv"))
    yield from own.linear(f"{at}/self_attention/linear_1", f"{to}.self_attn.out_proj")
    if at.startswith("decoder"):
        yield from own.norm(f"{at}/attention/layer_norm", f"{to}.encoder_attn_layer_norm")
        yield from own.linear(f"{at}/attention/linear_0", f"{to}.encoder_attn.q_proj")
        pair = (f"{to}.encoder_attn.{part}_proj" for part in "kv")
        yield from own.linear(f"{at}/attention/linear_1", *pair)
        yield from own.linear(f"{at}/attention/linear_2", f"{to}.encoder_attn.out_proj")
    yield from own.norm(f"{at}/ffn/layer_norm", f"{to}.final_layer_norm")
    yield from own.linear(f"{at}/ffn/linear_0", f"{to}.fc1")
    yield from own.linear(f"{at}/ffn/linear_1", f"{to}.fc2")


class _Variables:
    """The variables of a file, and what they are called elsewhere."""

    def __init__(self, variables: Mapping[str, Array]) -> None:
        self._variables = variables

    def as_is(self, own: str, name: str) -> tuple[str, Tensor]:
        array = self._variables[own]
        if array.dtype.kind != "f":
            raise ValueError(f"'{own}' is quantized")
        return name, stored(array)

    def norm(self, own: str, name: str) -> Iterator[tuple[str, Tensor]]:
        for end, other in _NORMS.items():
            yield self.as_is(f"{own}/{end}", f"{name}.{other}")

    def linear(self, own: str, *names: str) -> Iterator[tuple[str, Tensor]]:
        """A layer, or several fused in one, rows after rows; keys have no bias but zeros."""
        for end in ("weight", "bias"):
            _, whole = self.as_is(f"{own}/{end}", own)
            for name, part in zip(names, np.split(whole.read(), len(names)), strict=True):
                if end == "weight" or not name.endswith("k_proj"):
                    yield f"{name}.{end}", stored(part)

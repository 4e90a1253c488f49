"""Loads what a model consists of: its family's encoder and the heads it was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.described import described
from shoal.runtimes.torch.families.base import Decoder, Encoder, Family, Reader
from shoal.runtimes.torch.families.known import FAMILIES
from shoal.runtimes.torch.generating.generator import Decoding
from shoal.runtimes.torch.heads.base import Ground, Head
from shoal.runtimes.torch.heads.build import GENERATE, build
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import beside_table
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.packed import Filling
from shoal.runtimes.torch.weights import Shape, Weights
from shoal.wire.socket import Load

_DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class Parts(NamedTuple):
    """A model; `heads` by output, `bytes` those of all its tensors, `decoding` if it generates, the rest as
    its family says."""

    encoder: Encoder
    heads: dict[str, Head]
    bytes: int
    takes: Takes | None
    pools: bool
    filling: Filling | None
    decoding: Decoding | None = None


def load_parts(load: Load, device: torch.device) -> Parts:
    """Reads the weights. Raises `ModelLoadFailed` with the reason."""
    family = FAMILIES[load.family]
    dtype = _dtype(load.dtype, device)
    if dtype == torch.float16 and not family.float16:
        raise ModelLoadFailed(
            f"family {load.family!r} leaves the range of float16; use auto, float32 or bfloat16"
        )
    folder = Path(load.path)
    config, path, rename = described(folder, family)
    weights = Weights(folder, rename)
    weights.check(_expected(family, config, path))
    layers = Layers(weights, dtype or _half(family, weights), device)
    encoder = family.encoder(config, layers)
    if not 0 < load.max_tokens <= encoder.max_tokens:
        raise ModelLoadFailed(
            f"max_tokens is {load.max_tokens}, but the model's positions allow 1 to "
            f"{encoder.max_tokens}"
        )
    ground = Ground(layers, family.heads(config), encoder.width, encoder.vocabulary)
    generates = [name for name, said in load.heads.items() if said.get("head", name) == GENERATE]
    heads = build({n: said for n, said in load.heads.items() if n not in generates}, ground)
    takes = None if family.takes is None else family.takes(config)
    decoding = _decoding(load, encoder, ground, takes) if generates and load.sequences else None
    filling = None if family.fills is None else family.fills(config, folder)
    return Parts(encoder, heads, layers.bytes, takes, family.pools, filling, decoding)


def _decoding(load: Load, encoder: Encoder, ground: Ground, takes: Takes | None) -> Decoding:
    """Raises `ModelLoadFailed` where the model cannot carry on a text."""
    layout, layers = ground.layout, ground.layers
    table, tied = layout.generator, layout.tied
    if table is None or not isinstance(encoder, Decoder | Reader):
        raise ModelLoadFailed(f"family {load.family!r} generates nothing here")
    decoder = encoder.writer(layers) if isinstance(encoder, Reader) else encoder
    if not all(kept.attention.causal for kept in decoder.kept):
        raise ModelLoadFailed("its tokens see those after them too, so that it generates nothing")
    if layout.own is not None and layout.own in layers:
        table, tied = layout.own, False
    if tied and decoder.words.dtype == layers.dtype:
        return Decoding(decoder, beside_table(decoder.words), layers.dtype, takes)
    layers.expect(table, ground.vocabulary, ground.width)
    return Decoding(decoder, layers.product([table], []), layers.dtype, takes)


def _expected(family: Family[Any], config: Any, path: Path) -> dict[str, Shape]:
    try:
        return family.tensors(config)
    except ValueError as error:  # keys that are fine each by itself
        raise ModelLoadFailed(f"{path}: {error}") from None


def _half(family: Family[Any], weights: Weights) -> torch.dtype:
    return weights.half_dtype() if family.float16 else torch.bfloat16


def _dtype(name: str, device: torch.device) -> torch.dtype | None:
    """None: the half-precision dtype that suits the weights."""
    if name == "auto":
        return torch.float32 if device.type == "cpu" else None
    if name not in _DTYPES:
        raise ModelLoadFailed(f"unknown dtype {name!r}; use auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]

"""A model to try each kind of runtime with, made on the spot: `SAMPLES` is the list to add one to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shoal.catalog.convert.tensors import Tensor, stored
from shoal.catalog.convert.writer import write
from shoal.runtimes.check.sample import Sample, item
from shoal.wire.socket import Load

_DIM = 8
_HEADS = {"dense": {"head": "dense", "dim": _DIM, "pooling": "mean"}}
_VOCABULARY = 200
_TEXTS = ([5, 6, 7], [8], [9, 10, 11, 12], [5, 6, 7, 5, 6, 7])
#: What a model holds whose memory is looked at: more than a process grows by beside it.
_LARGE_BYTES = 64_000_000


def fake(_: Path) -> Sample:
    """No model, and what it costs and holds is made up."""
    bad = 5000
    options = {"fail": bad, "token_s": 1e-4, "new_token_s": 0.002}
    heads: dict[str, dict[str, Any]] = {**_HEADS, "generate": {}}
    load = Load("", "", "fake", heads, options=options, sequences=4)
    large = {"load_s": 0.2, "holds": True, "bytes": _LARGE_BYTES}
    broken = {"load_error": "made up"}
    return Sample(
        load,
        [item(ids, [*_HEADS]) for ids in _TEXTS],
        bad_id=bad,
        broken=(_with_options(load, broken), "made up"),
        large=_with_options(load, large),
        prompts=_TEXTS,
    )


def bert(folder: Path) -> Sample:
    """Random weights: two layers, and as many of them in the large one as fill its bytes."""
    small, large = folder / "small", folder / "large"
    inner = _LARGE_BYTES // (24 * 2 * _DIM * 4)
    return Sample(
        _load_bert(small, layers=2, inner=16),
        [item(ids, [*_HEADS]) for ids in _TEXTS],
        bad_id=_VOCABULARY,
        large=_load_bert(large, layers=24, inner=inner),
    )


def exported(folder: Path) -> Sample:
    """The same, as graphs."""
    from shoal.runtimes.onnx.export.build import Model
    from shoal.runtimes.onnx.export.build import exported as graph_of

    def as_graph(load: Load) -> Load:
        model = Model(Path(load.path), load.family, load.heads)
        return msgspec.structs.replace(load, path=str(graph_of(model, str(folder / "cache"))))

    made = bert(folder)
    assert made.large is not None
    return msgspec.structs.replace(made, load=as_graph(made.load), large=as_graph(made.large))


#: Kind -> what makes its sample in an empty folder, with no packages but those of the kind.
SAMPLES: dict[str, Callable[[Path], Sample]] = {
    "fake": fake,
    "torch": bert,
    "onnx": exported,
    "candle": bert,
}


def _with_options(load: Load, options: dict[str, Any]) -> Load:
    return msgspec.structs.replace(load, options=load.options | options)


def _load_bert(folder: Path, layers: int, inner: int) -> Load:
    folder.mkdir()
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": _VOCABULARY,
        "hidden_size": _DIM,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": inner,
        "max_position_embeddings": 128,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
    }
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    tensors = dict(_tensors(layers, inner))
    write(folder / "model.safetensors", tensors, "float32", lambda *_: None)
    return Load("", str(folder), "bert", _HEADS, max_tokens=128)


def _tensors(layers: int, inner: int) -> Iterator[tuple[str, Tensor]]:
    random = np.random.default_rng(7)
    for name, shape in _shapes(layers, inner):
        yield name, stored(random.standard_normal(shape, np.float32))


def _shapes(layers: int, inner: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    words = {"word": _VOCABULARY, "position": 128, "token_type": 2}
    for name, rows in words.items():
        yield f"embeddings.{name}_embeddings.weight", (rows, _DIM)
    yield from _affine("embeddings.LayerNorm", (_DIM,))
    for layer in (f"encoder.layer.{number}" for number in range(layers)):
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            yield from _affine(f"{layer}.attention.{part}", (_DIM, _DIM))
        yield from _affine(f"{layer}.attention.output.LayerNorm", (_DIM,))
        yield from _affine(f"{layer}.intermediate.dense", (inner, _DIM))
        yield from _affine(f"{layer}.output.dense", (_DIM, inner))
        yield from _affine(f"{layer}.output.LayerNorm", (_DIM,))


def _affine(name: str, shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]

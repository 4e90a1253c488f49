"""A model to try each kind of runtime with, made on the spot: `SAMPLES` is the list to add one to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from shoal.runtimes.check import gguf, made
from shoal.runtimes.check.sample import Sample, item
from shoal.wire.socket import Load

_DENSE = {"dense": {"head": "dense", "dim": made.DIM, "pooling": "mean"}}
_BOTH: dict[str, dict[str, Any]] = {**_DENSE, "generate": {"head": "generate"}}
_TEXTS = ([5, 6, 7], [8], [9, 10, 11, 12], [5, 6, 7, 5, 6, 7])
_ITEMS = [item(ids, [*_DENSE]) for ids in _TEXTS]
_SEQUENCES = 4
#: What a model holds whose memory is looked at: more than a process grows by beside it.
_LARGE_BYTES = 64_000_000
_LARGE_LAYERS = 24


def fake(_: Path) -> Sample:
    """No model, and what it costs and holds is made up."""
    bad = 5000
    options = {"fail": bad, "token_s": 1e-4, "new_token_s": 0.002}
    load = Load("", "", "fake", _BOTH, options=options, sequences=_SEQUENCES)
    large = {"load_s": 0.2, "holds": True, "bytes": _LARGE_BYTES}
    broken = {"load_error": "made up"}
    return Sample(
        load,
        _ITEMS,
        bad_id=bad,
        broken=(_with_options(load, broken), "made up"),
        large=_with_options(load, large),
        prompts=_TEXTS,
    )


def encoder(folder: Path) -> Sample:
    """A BERT; the large one has as many layers and weights as fill its bytes."""

    def load(name: str, layers: int, inner: int) -> Load:
        made.bert(folder / name, layers, inner)
        return Load("", str(folder / name), "bert", _DENSE, max_tokens=made.MAX_TOKENS)

    return Sample(
        load("small", 2, 16), _ITEMS, bad_id=made.VOCABULARY, large=load("large", *_large(2))
    )


def exported(folder: Path) -> Sample:
    """The same, as graphs."""
    from shoal.runtimes.onnx.export.build import Model
    from shoal.runtimes.onnx.export.build import exported as graph_of

    def as_graph(load: Load) -> Load:
        model = Model(Path(load.path), load.family, load.heads)
        return msgspec.structs.replace(load, path=str(graph_of(model, str(folder / "cache"))))

    of = encoder(folder)
    assert of.large is not None
    return msgspec.structs.replace(of, load=as_graph(of.load), large=as_graph(of.large))


def generator(folder: Path) -> Sample:
    """A Llama, whose hidden states are pooled as well."""

    def load(name: str, layers: int, inner: int) -> Load:
        made.llama(folder / name, layers, inner)
        path, tokens = str(folder / name), made.MAX_TOKENS
        return Load("", path, "llama", _BOTH, max_tokens=tokens, sequences=_SEQUENCES)

    return Sample(
        load("small", 2, 16),
        _ITEMS,
        bad_id=made.VOCABULARY,
        large=load("large", *_large(3)),
        prompts=_TEXTS,
    )


def quantised(folder: Path) -> Sample:
    """A Llama as a GGUF file, which does nothing but generate."""

    def load(name: str, layers: int, inner: int) -> Load:
        gguf.llama(folder / name / "model.gguf", layers, inner)
        heads = {"generate": {"head": "generate"}}
        path, tokens = str(folder / name), made.MAX_TOKENS
        return Load("", path, "llama", heads, max_tokens=tokens, sequences=_SEQUENCES)

    inner = _LARGE_BYTES // (_LARGE_LAYERS * 3 * gguf.DIM * 4)
    return Sample(
        load("small", 12, 1024),  # a pass of some tenths of a millisecond
        bad_id=made.VOCABULARY,
        large=load("large", _LARGE_LAYERS, inner),
        prompts=_TEXTS,
    )


#: Kind -> what makes its sample in an empty folder, with no packages but those of the kind.
SAMPLES: dict[str, Callable[[Path], Sample]] = {
    "fake": fake,
    "torch": generator,
    "onnx": exported,
    "candle": encoder,
    "gguf": quantised,
}


def _with_options(load: Load, options: dict[str, Any]) -> Load:
    return msgspec.structs.replace(load, options=load.options | options)


def _large(products: int) -> tuple[int, int]:
    """Layers, and the width of the so many products between their attentions."""
    return _LARGE_LAYERS, _LARGE_BYTES // (_LARGE_LAYERS * products * made.DIM * 4)

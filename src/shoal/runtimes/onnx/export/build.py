"""From a model's folder to a folder with its graph, in the cache: made once, whole or not at all.

Decides which graph a card is computed by, and when one must be made anew.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from shoal.catalog import cache
from shoal.errors import ConfigError
from shoal.runtimes.onnx.encoders.heads import Value, heads_of
from shoal.runtimes.onnx.export.architecture import Architecture, architecture
from shoal.runtimes.onnx.export.encoder import Encoder
from shoal.runtimes.onnx.export.graph import GRAPH, WEIGHTS, GraphWriter
from shoal.runtimes.onnx.export.kept import MadeOf, prune, record
from shoal.runtimes.onnx.export.products import PRODUCTS, Weights
from shoal.runtimes.onnx.export.tensors import Tensors
from shoal.spelling import nearest

#: Values that are made of each item's first token alone.
_OF_FIRST: set[Value] = {"first", "sequence"}


class Model(msgspec.Struct, frozen=True):
    """What a graph is made of.

    Attributes:
        folder: safetensors and config.json.
        heads: output name -> options, as `Load` has them.
        weights: how products are computed.
    """

    folder: Path
    family: str
    heads: dict[str, dict[str, Any]]
    weights: Weights = "float32"


def weights_of(options: dict[str, Any]) -> Weights | Literal["shipped"]:
    """What a profile's options say. Raises `ConfigError` naming what they should not."""
    said = options.get("weights", "float32")
    known = (*get_args(Weights), "shipped")
    if said not in known:
        raise ConfigError(
            f"weights: no graph is made with '{said}'{nearest(str(said), known)}; there are "
            f"{', '.join(known)}"
        )
    return said  # type: ignore[no-any-return]


def exported(model: Model, cache_dir: str | None) -> Path:
    """The folder with the model's graph, made if it is not there; blocking, on one core.

    Raises:
        SourceError: the folder is no such model, or the disk refuses.
        ModelLoadFailed: a head is not made of graphs.
    """
    values = sorted({head.value for head in heads_of(model.heads).values()})
    found = architecture(model.folder, model.family)
    made_of = MadeOf(str(model.folder), model.family, values, model.weights)
    target = cache.root(cache_dir) / "exported" / made_of.name

    def make(scratch: Path) -> None:
        _make(model, found, values, scratch)
        record(made_of, scratch)
        prune(made_of, target.parent)

    return cache.build(target, make)


def _make(model: Model, of: Architecture, values: list[Value], folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copy(model.folder / "config.json", folder)
    tensors = Tensors(model.folder, of.prefix)
    with (folder / WEIGHTS).open("wb") as data:
        graph = GraphWriter(data)
        encoder = Encoder(graph, tensors, of, PRODUCTS[model.weights](graph))
        first_only = _OF_FIRST.issuperset(values)
        rows = encoder.hidden(first_only=first_only)
        firsts = rows if first_only else graph.node("Gather", rows, encoder.first)
        for value in values:
            _add(value, graph, encoder, of, rows, firsts)
    graph.write(folder / GRAPH)


def _add(
    value: Value, graph: GraphWriter, encoder: Encoder, of: Architecture, rows: str, firsts: str
) -> None:
    """One output of the graph."""
    match value:
        case "hidden":
            made, axes = rows, ("tokens", of.hidden)
        case "first":
            made, axes = firsts, ("items", of.hidden)
        case "tokens":
            made, labels = encoder.linear(rows, of.labels)
            axes = ("tokens", labels)
        case "sequence":
            pooler, activation = of.pooler
            pooled = graph.node(activation, encoder.linear(firsts, pooler)[0])
            made, labels = encoder.linear(pooled, of.classifier)
            axes = ("items", labels)
    graph.output(value, made, "float32", axes)

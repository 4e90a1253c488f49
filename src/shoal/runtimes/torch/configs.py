"""Reads the JSON files of a model folder: what they must hold is said by the type."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from shoal.catalog.depth import unlikely_depth
from shoal.errors import ModelLoadFailed

Config = TypeVar("Config", bound=msgspec.Struct)


def read_config(path: Path, kind: type[Config]) -> Config:
    """The file as `kind`. Raises `ModelLoadFailed` naming file and key."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ModelLoadFailed(f"{path} cannot be read: {error.strerror}") from None
    return config_of(text, kind, str(path))


def config_of(text: bytes | msgspec.Raw, kind: type[Config], where: str) -> Config:
    """A config as `kind`. Raises `ModelLoadFailed` naming where it stands, and the key."""
    try:
        config = msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise ModelLoadFailed(f"{where}: {error}") from None
    if (wrong := unlikely_depth(config)) is not None:
        raise ModelLoadFailed(f"{where}: {wrong}")
    return config

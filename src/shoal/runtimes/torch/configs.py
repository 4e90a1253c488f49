"""Reads the JSON files of a model folder: what they must hold is said by the type."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from shoal.errors import ModelLoadFailed

Config = TypeVar("Config", bound=msgspec.Struct)


def read_config(path: Path, kind: type[Config]) -> Config:
    """The file as `kind`. Raises `ModelLoadFailed` naming file and key."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise ModelLoadFailed(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ModelLoadFailed(f"{path}: {error}") from None

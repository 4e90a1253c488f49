"""Which file of a model folder describes its encoder, and what the encoder's tensors are called there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from shoal.catalog.gliner import FILE, SAVE_ANEW, GlinerConfig
from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.configs import config_of, read_config
from shoal.runtimes.torch.families.base import Family

#: Before the names of the encoder's tensors in a GLiNER.
_INSIDE = "token_rep_layer.bert_layer.model."


class Described(NamedTuple):
    """An encoder: its config, the file that holds it, and `Family.rename` for that folder."""

    config: Any
    path: Path
    rename: Callable[[str], str | None]


def described(folder: Path, family: Family[Any]) -> Described:
    """Raises `ModelLoadFailed` naming file and key."""
    path = folder / FILE
    if not path.is_file():
        path = folder / "config.json"
        return Described(read_config(path, family.config), path, family.rename)
    around = read_config(path, GlinerConfig)
    if not around.has_encoder:
        raise ModelLoadFailed(f"{path} has no encoder_config; {SAVE_ANEW}")
    config = config_of(around.encoder_config, family.config, f"{path}: encoder_config")
    return Described(config, path, lambda stored: _inside(stored, family))


def _inside(stored: str, family: Family[Any]) -> str | None:
    name = stored.removeprefix(_INSIDE)
    return stored if name == stored else family.rename(name)

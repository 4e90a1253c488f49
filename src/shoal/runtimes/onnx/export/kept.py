"""The names under which graphs lie in the cache, and which of those there nobody will ask for any more.

A graph's folder says what it was made of. So whoever makes another one of the same model can tell whether the
code of today, on the files of today, would still take the older ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path

import msgspec

from shoal.catalog import cache
from shoal.catalog.sources.wheel import slug
from shoal.runtimes.onnx.encoders.heads import Value
from shoal.runtimes.onnx.export.products import Weights

#: Counted up when other graphs are made of the same files.
VERSION = 1

_RECORD = "made_of.json"


class MadeOf(msgspec.Struct, frozen=True):
    """What a graph follows from, beside the files in `folder`; `values`: its outputs, in order."""

    folder: str
    family: str
    values: list[Value]
    weights: Weights = "float32"

    @property
    def name(self) -> str:
        """Of its folder. Hashing the weights themselves would take longer than loading them.

        Raises `OSError` where the model's folder has no configuration, or is none.
        """
        folder = Path(self.folder)
        config = (folder / "config.json").read_bytes()
        files = [
            (path.name, path.stat().st_size, path.stat().st_mtime_ns)
            for path in sorted(folder.glob("*.safetensors"))
        ]
        parts = (VERSION, self.folder, self.family, self.values, config, files)
        digest = hashlib.sha256(msgspec.msgpack.encode(parts)).hexdigest()[:12]
        return f"{slug(folder.name)}-{self.weights}-{digest}"


def record(made_of: MadeOf, folder: Path) -> None:
    """Say in a graph's folder what it was made of."""
    (folder / _RECORD).write_bytes(msgspec.json.encode(made_of))


def prune(made_of: MadeOf, exported: Path) -> None:
    """Remove graphs of models that are called alike which nobody takes any more: of files that have changed
    or gone since, or of other code. Those of other heads, weights and folders stay."""
    own = re.compile(rf"{re.escape(slug(Path(made_of.folder).name))}-[a-z0-9]+-[0-9a-f]{{12}}")
    for folder in exported.iterdir():
        if own.fullmatch(folder.name) and not _is_named(folder):
            with contextlib.suppress(OSError):  # the next one tries again; this one's graph is made
                cache.drop(folder)


def _is_named(folder: Path) -> bool:
    try:
        made_of = msgspec.json.decode((folder / _RECORD).read_bytes(), type=MadeOf)
        return made_of.name == folder.name
    except (OSError, msgspec.DecodeError):
        return False

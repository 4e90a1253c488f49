"""A small file of a model that is to run, as a value. Files of one to be inferred are `folder`'s."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from shoal.errors import ModelLoadFailed, reason

T = TypeVar("T")


def read_json(path: Path, kind: type[T], missing: T | None = None, *, strict: bool = True) -> T:
    """A JSON file; `missing` where there is none. Raises `ModelLoadFailed` naming the file.

    `strict`: text is no number.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind, strict=strict)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if missing is not None and isinstance(error, FileNotFoundError):
            return missing
        raise ModelLoadFailed(f"{path} cannot be read: {reason(error)}; replace the file") from None

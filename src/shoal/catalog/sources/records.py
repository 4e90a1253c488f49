"""What was pulled from the hub: a small file for each revision of a repository.

It tells which commit a branch or a tag was when it was first pulled, and, without the half second
that importing `huggingface_hub` takes, that a repository was never asked for.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from shoal.catalog import cache
from shoal.errors import SourceError, reason

#: The branch that is meant where a card names no revision.
MAIN = "main"


class Record(msgspec.Struct, frozen=True):
    """What a repository's revision (a branch, a tag, a commit) was when it was first pulled."""

    hub: str
    revision: str
    commit: str


def file_of(hub: str, revision: str | None, cache_dir: str | None) -> Path:
    """Where the record of a revision lies, if there is one."""
    slug = re.sub(r"[^A-Za-z0-9._-]", "--", f"{hub}@{revision or MAIN}")
    return cache.root(cache_dir) / "hub" / f"{slug}.json"


def commit_in(file: Path) -> str | None:
    """The recorded commit; None before the first pull. Raises `SourceError` if it is no record."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Record).commit
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise SourceError(
            f"{file}: cannot be read: {reason(error)}; delete it to pull anew"
        ) from None


def write(file: Path, record: Record) -> None:
    """Keep `record`, unless another process was first. Raises `SourceError`."""

    def make(scratch: Path) -> None:
        scratch.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")

    cache.build(file, make)

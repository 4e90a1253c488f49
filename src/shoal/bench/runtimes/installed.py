"""What a kind of runtime adds to an installation, in bytes of files on this machine's disk.

Decides which distributions count: those of the packages that the kind needs, with all that they ask
for here, and that Shoal does not need by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import shoal
from shoal.runtimes.packages import NEEDED


class Installed(msgspec.Struct, frozen=True):
    """`own`: Shoal and what it needs with any runtime or none; `added`: what the kind needs besides."""

    own_bytes: int
    added_bytes: int


def installed(kind: str) -> Installed:
    """What Shoal with the runtime `kind` takes on disk, compiled modules that pip wrote included."""
    own = _closure(["shoal"])
    added = _closure(NEEDED.get(kind, ())) - own
    package = Path(shoal.__file__).parent  # an editable install lists no files of its own
    files = sum(path.stat().st_size for path in package.rglob("*") if path.is_file())
    return Installed(files + _bytes(own - {"shoal"}), _bytes(added))


def _closure(roots: Iterable[str]) -> set[str]:
    """`roots`, and every installed distribution that they ask for, directly or not."""
    found: set[str] = set()
    asked = [(root, frozenset[str]()) for root in roots]
    seen: set[tuple[str, frozenset[str]]] = set()
    while asked:
        name, extras = one = asked.pop()
        of = _distribution(name)
        if of is None or one in seen:
            continue
        seen.add(one)
        found.add(name)
        asked += [
            (canonicalize_name(requirement.name), frozenset(requirement.extras))
            for requirement in map(Requirement, of.requires or ())
            if _applies(requirement, extras)
        ]
    return found


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether it counts on this machine, for any of the extras or for none."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})


@cache
def _distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _bytes(names: Iterable[str]) -> int:
    """Of all files that were installed with these distributions."""
    total = 0
    for name in names:
        if (of := _distribution(name)) is not None:
            files = [Path(str(file.locate())) for file in of.files or ()]
            total += sum(file.stat().st_size for file in files if file.is_file())
    return total

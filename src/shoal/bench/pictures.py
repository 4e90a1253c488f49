"""How pictures begin and end. matplotlib is imported here alone, when one is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError
from shoal.installing import install


def can_draw() -> None:
    """Raises `ConfigError` without matplotlib: better before an hour of measuring than after it."""
    if find_spec("matplotlib") is None:
        raise ConfigError(f"--plot needs matplotlib, not installed here: {install('sim')}")


@contextlib.contextmanager
def panels(path: Path, count: int) -> Iterator[list[Any]]:
    """So many axes, one below the other, that share their x axis; written to `path` in the end."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.5 * count), layout="constrained")
    yield [row[0] for row in figure.subplots(count, 1, sharex=True, squeeze=False)]
    figure.savefig(path)

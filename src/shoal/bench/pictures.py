"""How pictures begin and end. matplotlib is imported here alone, when one is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError


@contextlib.contextmanager
def panels(path: Path, count: int) -> Iterator[list[Any]]:
    """So many axes, one below the other, that share their x axis; written to `path` in the end.

    Raises:
        ConfigError: there is no matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigError("--plot needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(9, 2.5 * count), layout="constrained")
    yield [row[0] for row in figure.subplots(count, 1, sharex=True, squeeze=False)]
    figure.savefig(path)

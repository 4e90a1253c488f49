"""Numbers and sizes on the command line: plain digits within bounds. typer's own take '1_0' and 'nan' too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

from shoal.values import number, whole_number

N = TypeVar("N", int, float)
#: How many times 10^6 bytes a unit is.
_UNITS = {"KB": 0.001, "MB": 1.0, "GB": 1000.0}


def whole(least: int, most: int | None = None) -> Callable[[object], int]:
    """Reads a whole number within bounds: the `parser` of an option or argument."""

    def integer(given: object) -> int:
        return _within(given, whole_number(str(given)), "whole number", least, most)

    return integer


def decimal(least: float, most: float | None = None) -> Callable[[object], float]:
    """Reads any number within bounds: the `parser` of an option or argument."""

    def number_(given: object) -> float:
        return _within(given, number(str(given)), "number", least, most)

    return number_


def megabytes(given: object) -> float:
    """Reads a size, `500MB` or `1.5GB`, in 10^6 bytes: the `parser` of an option."""
    text = str(given).upper()
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            found = number(text.removesuffix(unit))
            if found is not None and found > 0:
                return found * factor
    raise typer.BadParameter(f"'{given}' is no size, such as 500MB or 1.5GB")


def _within(given: object, found: N | None, what: str, least: N, most: N | None) -> N:
    if found is None:
        raise typer.BadParameter(f"'{given}' is no {what}")
    if found < least:
        raise typer.BadParameter(f"{given} is less than {least}")
    if most is not None and found > most:
        raise typer.BadParameter(f"{given} is more than {most}")
    return found

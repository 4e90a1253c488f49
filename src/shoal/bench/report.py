"""How results look: a table for people, JSON for machines, what is wrong, and which machine it was."""

from __future__ import annotations

import datetime
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from shoal import __version__
from shoal.cores import usable


class Machine(msgspec.Struct, frozen=True):
    """Where and with what a benchmark ran."""

    date: str
    cpu: str
    cores: int
    python: str
    versions: dict[str, str]

    def __str__(self) -> str:
        packages = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"{self.date}, {self.cores} cores of {self.cpu}, Python {self.python}, {packages}"


class Result(msgspec.Struct, frozen=True):
    """What every benchmark gives back."""

    machine: Machine

    @property
    def problems(self) -> list[str]:
        """What must not have happened."""
        return []


def this_machine(packages: Sequence[str]) -> Machine:
    """This machine, with the versions of `packages` where they are installed."""
    return Machine(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        cpu=_cpu(),
        cores=usable(),
        python=platform.python_version(),
        versions={"shoal": __version__, **_versions(packages)},
    )


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; numbers stand at the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    numeric = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(head))]
    lines = [
        [_aligned(text, w, right) for text, w, right in zip(row, widths, numeric, strict=True)]
        for row in [list(head), *cells]
    ]
    rule = ["-" * (w - right) + ":" * right for w, right in zip(widths, numeric, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])


def ratio(values: Sequence[float]) -> str:
    """Of rounds: the median, and their range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _aligned(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if value != value or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def show(result: Result, shown: str) -> None:
    """Print where it was measured, what was, and what is wrong with it."""
    print(result.machine, "", shown, sep="\n")
    if result.problems:
        print("", *(f"WRONG: {problem}" for problem in result.problems), sep="\n")


def write_json(path: Path, result: msgspec.Struct) -> None:
    """The whole result, every round included."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")

"""The table of families and heads has every cell that is tested, each within its tolerance.

Run as a program, it measures every cell and writes the table anew. Digits of an error may differ
from machine to machine, so they are not compared.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from types import ModuleType

from shoal.runtimes.torch import families, generating
from shoal.runtimes.torch.heads.build import HEADS
from tests.runtimes.torch.families.table import FAMILIES, MEASURES, cells, error

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
TABLE = re.compile(r"\| family \|(?:.*\|\n)+")
NONE = "–"


def shown() -> dict[tuple[str, str], float]:
    """The cells on the page."""
    [table] = TABLE.findall(PAGE.read_text())
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    heads = [re.sub(r"`(.*)`.*", r"\1", title) for title in rows[0][2:]]
    return {
        (row[0].strip("`"), head): float(worst)
        for row in rows[3:]  # after titles, rule and lines of the heads
        for head, worst in zip(heads, row[2:], strict=True)
        if worst != NONE
    }


def test_every_cell_is_on_the_page() -> None:
    page = shown()
    assert page.keys() == set(cells()), (
        "write it anew: PYTHONPATH=. python tests/docs/test_models.py"
    )
    for (_, head), worst in page.items():
        assert worst <= MEASURES[head].tolerance


def table() -> str:
    """Measured now."""
    errors = {cell: _measured(*cell) for cell in cells()}
    titles = [
        f"`{head}`, {measure.name}" + (f" ≤ {measure.tolerance:g}" if measure.tolerance else "")
        for head, measure in MEASURES.items()
    ]
    rows = [["family", "lines", *titles], ["---"] * (len(MEASURES) + 2)]
    rows.append(["lines", "", *(_lines(*_modules(head)) for head in MEASURES)])
    rows += [
        [
            f"`{family}`",
            _lines(import_module(f"{families.__name__}.{family}")),
            *(errors.get((family, head), NONE) for head in MEASURES),
        ]
        for family in FAMILIES
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _modules(head: str) -> list[ModuleType]:
    """Those that compute it."""
    if head in HEADS:
        return [sys.modules[HEADS[head].__module__]]
    return [
        import_module(f"{generating.__name__}.{of.name}")
        for of in iter_modules(generating.__path__)
    ]


def _lines(*modules: ModuleType) -> str:
    return str(sum(len(inspect.getsource(module).splitlines()) for module in modules))


def _measured(family: str, head: str) -> str:
    with TemporaryDirectory() as folder:
        worst = f"{error(family, head, Path(folder)):.0e}"
    print(family, head, worst)
    return worst


if __name__ == "__main__":
    text = PAGE.read_text()
    fresh = table()
    PAGE.write_text(TABLE.sub(lambda _: fresh, text))

"""The table of families and heads has every cell that is tested, each within its tolerance.

Run as a program, it measures every cell and writes the table anew. Digits of an error may differ
from machine to machine, so they are not compared.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.runtimes.torch.families.cells import HEADS
from tests.runtimes.torch.families.checking import worst_error
from tests.runtimes.torch.families.rows import ROWS, cells

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
TABLE = re.compile(r"\| family \|(?:.*\|\n)+")
NONE = "–"


def shown() -> dict[tuple[str, str], float]:
    """The cells on the page."""
    [table] = TABLE.findall(PAGE.read_text())
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    heads = [re.sub(r"`(.*)`.*", r"\1", title) for title in rows[0][1:]]
    return {
        (row[0].strip("`"), head): float(error)
        for row in rows[2:]
        for head, error in zip(heads, row[1:], strict=True)
        if error != NONE
    }


def test_every_cell_is_on_the_page() -> None:
    page = shown()
    assert page.keys() == set(cells()), (
        "write it anew: PYTHONPATH=. python tests/docs/test_models.py"
    )
    for (_, head), error in page.items():
        assert error <= HEADS[head][0].measure.tolerance


def table() -> str:
    """Measured now."""
    errors = {cell: _measured(*cell) for cell in cells()}
    titles = [
        f"`{head}`, {ways[0].measure.name} ≤ {ways[0].measure.tolerance:g}"
        for head, ways in HEADS.items()
    ]
    lines = [["family", *titles], ["---"] * (len(HEADS) + 1)]
    lines += [
        [f"`{family}`", *(errors.get((family, head), NONE) for head in HEADS)] for family in ROWS
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _measured(family: str, head: str) -> str:
    with TemporaryDirectory() as folder:
        error = worst_error(ROWS[family], head, Path(folder))
    print(f"{family} {head} {error:.0e}")
    return f"{error:.0e}"


if __name__ == "__main__":
    text = PAGE.read_text()
    fresh = table()
    PAGE.write_text(TABLE.sub(lambda _: fresh, text))

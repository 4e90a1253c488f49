"""The table in docs/models.md: which cells it has, and the worst error of each."""

from __future__ import annotations

from pathlib import Path

from shoal.runtimes.torch.heads.build import GENERATE
from tests.runtimes.torch.families import generate_cells, media_cells, span_cells
from tests.runtimes.torch.families.cells import HEADS, LABELS, Measure
from tests.runtimes.torch.families.checking import worst_error
from tests.runtimes.torch.families.rows import ROWS

#: Head -> how far it may be off.
MEASURES: dict[str, Measure] = (
    {head: ways[0].measure for head, ways in HEADS.items()}
    | {"spans": LABELS}
    | media_cells.MEASURES
    | {GENERATE: generate_cells.MEASURE}
)

FAMILIES = list(dict.fromkeys([*ROWS, *media_cells.MEDIA, *generate_cells.VARIANTS]))


def cells() -> list[tuple[str, str]]:
    """Family and head of every cell: a family has a head where the reference has its class."""
    texts = [
        (family, head)
        for family, row in ROWS.items()
        for head, ways in HEADS.items()
        if all(way.kind in row.classes for way in ways)
    ]
    texts += [(family, "spans") for family, row in ROWS.items() if "encoder" in row.classes]
    texts += [(family, GENERATE) for family in generate_cells.VARIANTS]
    return texts + [(family, head) for family, of in media_cells.MEDIA.items() for head in of]


def error(family: str, head: str, folder: Path) -> float:
    """The worst of a cell, measured with models that are made in `folder`."""
    if head == "spans":
        return span_cells.worst_error(ROWS[family], folder)
    if head == GENERATE:
        return generate_cells.worst_error(family, folder)
    if family in ROWS:
        return worst_error(ROWS[family], head, folder)
    return media_cells.MEDIA[family][head](folder)

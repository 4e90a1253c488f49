"""Graphs of each family that is exported against the reference library's own forward."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from shoal.runtimes.onnx.encoders.model import EncoderModel
from shoal.runtimes.onnx.export.architecture import FAMILIES
from shoal.runtimes.onnx.export.build import Model, exported
from shoal.wire.socket import Load
from tests.runtimes.torch.families.cells import HEADS, Cell
from tests.runtimes.torch.families.checking import error
from tests.runtimes.torch.families.rows import ROWS

#: Heads, as far as they need nothing that is not exported.
CELLS = [
    (head, cell)
    for head in ("dense", "cross-encoder", "sequence-labels", "token-labels")
    for cell in HEADS[head]
    if not cell.options.get("projections")
]


def graph(load: Load) -> EncoderModel:
    made = exported(Model(Path(load.path), load.family, load.heads), f"{load.path}-cache")
    return EncoderModel(msgspec.structs.replace(load, path=str(made)), threads=1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("head", "cell"), CELLS, ids=[f"{head}-{c.options.get('pooling', c.kind)}" for head, c in CELLS]
)
def test_equals_the_reference(tmp_path: Path, family: str, head: str, cell: Cell) -> None:
    """Far closer than what a head may be off: in float32 nothing but the order of sums differs."""
    row = ROWS[family]
    for number, changes in enumerate(row.variants):
        assert error(row, changes, head, cell, tmp_path / str(number), graph) <= 1e-5

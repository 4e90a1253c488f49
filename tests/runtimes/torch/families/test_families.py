"""Every head of every family against the reference library's own forward, on random weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.runtimes.torch.families.known import FAMILIES
from shoal.runtimes.torch.heads.build import GENERATE, HEADS
from tests.runtimes.torch.families import table


@pytest.mark.parametrize(("family", "head"), table.cells())
def test_equals_the_reference(tmp_path: Path, family: str, head: str) -> None:
    assert table.error(family, head, tmp_path) <= table.MEASURES[head].tolerance


def test_no_family_and_no_head_is_left_out() -> None:
    checked = table.cells()
    assert {family for family, _ in checked} == FAMILIES.keys()
    # The head of `nli` is that of `sequence-labels` under another name.
    assert {head for _, head in checked} == HEADS.keys() - {"nli"} | {GENERATE}

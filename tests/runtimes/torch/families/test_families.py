"""Every head of every family against the reference library's own forward, on random weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtimes.torch.families.cells import HEADS
from tests.runtimes.torch.families.checking import worst_error
from tests.runtimes.torch.families.rows import ROWS, cells


@pytest.mark.parametrize(("family", "head"), cells())
def test_equals_the_reference(tmp_path: Path, family: str, head: str) -> None:
    assert worst_error(ROWS[family], head, tmp_path) <= HEADS[head][0].measure.tolerance

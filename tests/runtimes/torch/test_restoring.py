"""Rows of passes come back in the order of the batch, whatever was packed with what."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal.runtimes.torch.heads.base import HeadOutput
from shoal.runtimes.torch.restoring import restored
from shoal.wire.outputs import Sparse


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Values of each item, and which items go into which pass; some are in none."""
    items = draw(st.lists(st.lists(st.integers(1, 99), max_size=4), min_size=1, max_size=12))
    order = draw(st.permutations(range(len(items))))
    cuts = sorted(draw(st.lists(st.integers(1, len(items)), max_size=3, unique=True)))
    passes = [order[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
    return items, [part for part in passes if part]


@given(batches())
def test_rows_of_their_own_number(drawn: tuple[list[list[int]], list[list[int]]]) -> None:
    items, passes = drawn
    for sparse in (False, True):
        output = restored(
            [_said(items, part, sparse) for part in passes], _places(passes), len(items)
        )
        computed = {item for part in passes for item in part}
        for number, row in enumerate(output.rows() if passes else []):
            wanted = items[number] if number in computed else []
            values = row.values if isinstance(row, Sparse) else row
            assert values.tolist() == wanted
            if isinstance(row, Sparse):
                assert row.indices.tolist() == [value + 1 for value in wanted]


@given(batches())
def test_a_row_each(drawn: tuple[list[list[int]], list[list[int]]]) -> None:
    items, passes = drawn
    parts = [HeadOutput(torch.tensor([[float(n), 1.0] for n in part])) for part in passes]
    output = restored(parts, _places(passes), len(items))
    computed = {item for part in passes for item in part}
    if passes:
        assert output.values.tolist() == [
            [n, 1.0] if n in computed else [0.0, 0.0] for n in range(len(items))
        ]


def test_no_pass_at_all() -> None:
    assert restored([], [], 3).values.shape == (3, 0)


def _places(passes: list[list[int]]) -> list[NDArray[np.int64]]:
    return [np.array(part, np.int64) for part in passes]


def _said(items: list[list[int]], part: list[int], sparse: bool) -> HeadOutput:
    values = torch.tensor([value for n in part for value in items[n]], dtype=torch.float32)
    lengths = torch.tensor([len(items[n]) for n in part])
    return HeadOutput(values, lengths, (values + 1).int() if sparse else None)

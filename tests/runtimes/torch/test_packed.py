"""Packing: every token once, items whole, groups of one length, passes within their bound."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from shoal.runtimes.torch.packed import Packed, cut, pack

CPU = torch.device("cpu")


def packed(lengths: list[int], rows: list[int], pass_tokens: int) -> list[Packed]:
    counts = np.array(lengths, np.int64)
    tokens = np.arange(counts.sum(), dtype=np.int32)
    return pack(tokens, counts, np.array(rows, np.int64), pass_tokens=pass_tokens, device=CPU)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(50, 200), st.data())
def test_every_chosen_item_comes_out_whole(
    lengths: list[int], pass_tokens: int, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.sampled_from(range(len(lengths))), unique=True))
    starts = np.cumsum(lengths) - lengths
    passes = packed(lengths, rows, pass_tokens)
    assert sorted(row for one in passes for row in one.rows.tolist()) == sorted(rows)
    for one in passes:
        offsets = one.offsets.tolist()
        for row, start, stop in zip(one.rows.tolist(), offsets, offsets[1:], strict=False):
            assert one.tokens[start:stop].tolist() == list(
                range(starts[row], starts[row] + lengths[row])
            )
            assert one.positions[start:stop].tolist() == list(range(lengths[row]))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(50, 200))
def test_groups_tile_a_pass_and_hold_one_length_each(lengths: list[int], pass_tokens: int) -> None:
    for one in packed(lengths, list(range(len(lengths))), pass_tokens):
        stop = 0
        for group in one.groups:
            assert group.start == stop
            assert group.stop - group.start == group.items * group.length
            stop = group.stop
        assert stop == one.offsets[-1] <= one.computed
        assert [g.length for g in one.groups] == sorted({g.length for g in one.groups})
        assert one.longest == one.groups[-1].length


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(50, 200))
def test_a_pass_keeps_to_its_bound(lengths: list[int], pass_tokens: int) -> None:
    for one in packed(lengths, list(range(len(lengths))), pass_tokens):
        assert int(one.offsets[-1]) <= pass_tokens


def test_an_item_over_the_bound_runs_alone() -> None:
    assert [one.rows.tolist() for one in packed([300, 10, 20], [0, 1, 2], 100)] == [[1, 2], [0]]


@given(st.integers(1, 5000))
def test_filling_is_at_most_a_sixteenth(tokens: int) -> None:
    (one,) = packed([tokens], [0], 100)
    assert tokens <= one.computed <= tokens * (1 + 1 / 16)


def test_nothing_to_pack() -> None:
    assert packed([3, 4], [], 100) == []


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 80))
def test_groups_are_cut_between_items(lengths: list[int], rows: int) -> None:
    (one,) = packed(lengths, list(range(len(lengths))), 10_000)
    chunks = list(cut(one.groups, rows))
    pieces = [group for chunk in chunks for group in chunk]
    assert [n for group in pieces for n in [group.length] * group.items] == sorted(lengths)
    assert [group.start for group in pieces[1:]] == [group.stop for group in pieces[:-1]]
    for chunk in chunks:
        taken = chunk[-1].stop - chunk[0].start
        assert taken <= rows or (len(chunk), chunk[0].items) == (1, 1)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.data())
def test_types_tell_segments_apart(lengths: list[int], data: st.DataObject) -> None:
    splits = [data.draw(st.integers(0, n)) for n in lengths]
    counts = np.array(lengths, np.int64)
    passes = pack(
        np.arange(counts.sum(), dtype=np.int32),
        counts,
        np.arange(len(lengths)),
        pass_tokens=100,
        device=CPU,
        splits=np.array(splits, np.int32),
    )
    for one in passes:
        types = np.zeros(one.computed) if one.types is None else one.types.numpy()
        assert (one.types is None) == (not any(splits[row] for row in one.rows))
        offsets = one.offsets.tolist()
        for row, start, stop in zip(one.rows.tolist(), offsets, offsets[1:], strict=False):
            first = splits[row] or lengths[row]
            assert types[start:stop].tolist() == [0] * first + [1] * (lengths[row] - first)
        assert not types[offsets[-1] :].any()

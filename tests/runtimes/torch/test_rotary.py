"""Turned heads against the definition: complex numbers, multiplied."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from shoal.runtimes.torch.packed import Packed, pack
from shoal.runtimes.torch.rope import Frequencies
from shoal.runtimes.torch.rotary import Rotary

HEADS, WIDTH = 3, 16


def _packed(lengths: list[int]) -> Packed:
    (packed,) = pack(
        np.zeros(sum(lengths), np.int32),
        np.array(lengths, np.int64),
        np.arange(len(lengths)),
        pass_tokens=1000,
        device=torch.device("cpu"),
    )
    return packed


@pytest.mark.parametrize("turning", [WIDTH, 6])
def test_halves_turn_against_each_other(turning: int) -> None:
    packed = _packed([5, 1, 9, 5])
    angles = torch.rand(turning // 2)
    rows = torch.randn(packed.computed, HEADS, WIDTH)
    kept = rows.clone()
    turned = Rotary(Frequencies(angles, scale=1.5), torch.device("cpu")).of(packed)(rows)
    real, imaginary = rows[:, :, :turning].chunk(2, 2)
    by = torch.polar(torch.full((), 1.5), packed.positions[:, None] * angles)[:, None]
    expected = torch.complex(real, imaginary) * by
    torch.testing.assert_close(turned[:, :, :turning], torch.cat((expected.real, expected.imag), 2))
    assert torch.equal(turned[:, :, turning:], rows[:, :, turning:])
    assert torch.equal(rows, kept)


def test_each_item_turns_as_if_it_were_alone() -> None:
    """Where frequencies follow the length, neighbours of another length change nothing."""
    growing = Frequencies(torch.tensor([1.0, 0.1]), base=100.0, factor=2.0, trained=6)
    lengths = [3, 9, 6, 12, 7, 9]
    rows = torch.randn(sum(lengths), HEADS, 4)
    together = _packed(lengths)
    turned = Rotary(growing, torch.device("cpu")).of(together)(
        torch.nn.functional.pad(rows, (0, 0, 0, 0, 0, together.computed - len(rows)))
    )
    at = 0
    for length in sorted(lengths):
        alone = Rotary(growing, torch.device("cpu")).of(_packed([length]))
        torch.testing.assert_close(
            turned[at : at + length], alone(rows[at : at + length]), atol=0, rtol=0
        )
        at += length


def test_half_precision_is_turned_in_full() -> None:
    packed = _packed([40])
    rows = torch.randn(40, HEADS, WIDTH, dtype=torch.bfloat16)
    rotation = Rotary(Frequencies(torch.rand(WIDTH // 2)), torch.device("cpu")).of(packed)
    assert rotation(rows).dtype == torch.float32
    torch.testing.assert_close(rotation(rows), rotation(rows.float()))

"""Rotary positions (Su et al., 2021): the two halves of a head turn against each other.

Knows packed rows and frequencies, no config. One thread, 24 heads of 64, 2,048 rows, float32: a
rolled copy, multiplied and added in place 13 ms; the halves by themselves 18 to 26, negated and
joined halves as the paper's reference code has them 28.
"""

from __future__ import annotations

import torch
from torch import Tensor

from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.rope import Frequencies


class Rotation:
    """The turns of one pass, for all of its layers that turn alike."""

    def __init__(self, angles: Tensor, scale: float) -> None:
        """angles: [computed, rotated width / 2], radians."""
        cos, sin = angles.cos().mul_(scale)[:, None], angles.sin().mul_(scale)[:, None]
        self._cos = torch.cat((cos, cos), -1)
        self._sin = torch.cat((-sin, sin), -1)

    def __call__(self, rows: Tensor) -> Tensor:
        """[computed, heads, width] -> the same turned, float32; what exceeds the angles stays."""
        rows = rows.float()
        width = self._cos.shape[2]
        if width == rows.shape[2]:
            return self._turned(rows)
        return torch.cat((self._turned(rows[:, :, :width]), rows[:, :, width:]), 2)

    def _turned(self, rows: Tensor) -> Tensor:
        return rows.roll(rows.shape[2] // 2, 2).mul_(self._sin).addcmul_(rows, self._cos)


class Rotary:
    """Turns of one model's layers, or of those that turn alike."""

    def __init__(self, frequencies: Frequencies, device: torch.device) -> None:
        self._frequencies = frequencies
        self._plain = frequencies.plain.to(device)

    def at(self, positions: Tensor) -> Rotation:
        """The turns at these positions, [computed], as all items but those too long for them have
        them."""
        return Rotation(positions[:, None] * self._plain, self._frequencies.scale)

    def of(self, packed: Packed) -> Rotation:
        """The turns of a pass."""
        trained = self._frequencies.trained
        if trained is None or packed.longest <= trained:
            return self.at(packed.positions)
        positions = packed.positions[:, None]
        angles = positions * self._plain
        for group in packed.groups:
            if group.length > trained:
                grown = self._frequencies.of(group.length).to(angles.device)
                mine = slice(group.start, group.stop)
                angles[mine] = positions[mine] * grown
        return Rotation(angles, self._frequencies.scale)

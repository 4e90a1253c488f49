"""Computes the steps that a layout lists: the one piece that all heads share."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from shoal.runtimes.torch.heads.layout import Linear, Norm, Steps
from shoal.runtimes.torch.layers import Layers

Rows = Callable[[Tensor], Tensor]


class Stack:
    """Steps in a row: [n, width] -> [n, `width`] after the last of them.

    `bytes_per_row`: at most what one row needs on its way, all products in float32.
    """

    def __init__(self, steps: Steps, layers: Layers, width: int) -> None:
        """Raises `ModelLoadFailed` naming a tensor that is missing or does not fit."""
        self._steps: list[Rows] = []
        self.width = width
        self.bytes_per_row = 0
        for step in steps:
            self._steps.append(self._step(step, layers))
            self.bytes_per_row += 4 * self.width

    def _step(self, step: Linear | Norm, layers: Layers) -> Rows:
        if isinstance(step, Norm):
            layers.expect(f"{step.name}.weight", self.width)
            return layers.layer_norm(step.name, step.eps, bias=step.bias)
        self.width, _ = layers.expect(f"{step.name}.weight", None, self.width)
        return layers.linear(step.name, activation=step.activation, bias=step.bias)

    def __call__(self, rows: Tensor) -> Tensor:
        for step in self._steps:
            rows = step(rows)
        return rows

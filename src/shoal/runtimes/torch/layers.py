"""Turns the tensors of a checkpoint into the operations that use them.

What every family shares when it builds itself: dtype and device are said once, products of one
input are fused, norms carry their epsilon. Knows no architecture.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from shoal.runtimes.torch.linear import Activation, Linear, linear
from shoal.runtimes.torch.weights import Weights

Norm = Callable[[Tensor], Tensor]


class Layers:
    """Builds the parts of one model from its weights, in one dtype on one device."""

    def __init__(self, weights: Weights, dtype: torch.dtype, device: torch.device) -> None:
        self._weights, self._dtype, self._device = weights, dtype, device

    def tensor(self, name: str) -> Tensor:
        """A tensor as it is."""
        return self._weights.read(name, self._dtype, self._device)

    def table(self, name: str) -> Tensor:
        """A lookup table [rows, width]; on CPU it stays in the file, read row by row."""
        return self._weights.map(name, self._dtype, self._device)

    def linear(self, *names: str, activation: Activation | None = None) -> Linear:
        """``name.weight`` and ``name.bias``; several names make one product, in this order."""
        weight = torch.cat([self.tensor(f"{name}.weight") for name in names])
        bias = torch.cat([self.tensor(f"{name}.bias") for name in names])
        return linear(weight, bias, activation)

    def layer_norm(self, name: str, eps: float) -> Norm:
        """``name.weight`` and ``name.bias`` over the last dimension."""
        weight, bias = self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")
        shape = list(weight.shape)
        return lambda rows: torch.layer_norm(rows, shape, weight, bias, eps)

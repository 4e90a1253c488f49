"""Turns the tensors of a checkpoint into the operations that use them.

What every family shares when it builds itself: dtype and device are said once, products of one
input are fused, norms carry their epsilon. Knows no architecture.

On CPU only products and attention are computed in half precision; tables, norms and the stream of
residuals stay float32. That costs nothing measurable there and keeps MiniLM's vectors 4 to 5 times
closer to float32 (least cosine of 600 texts 0.99997 instead of 0.99989).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from shoal.runtimes.torch.linear import Activation, Linear, linear
from shoal.runtimes.torch.weights import Weights

Norm = Callable[[Tensor], Tensor]


class Layers:
    """Builds the parts of one model from its weights, in one dtype on one device.

    `bytes` counts the tensors handed out so far.
    """

    def __init__(self, weights: Weights, dtype: torch.dtype, device: torch.device) -> None:
        self._weights, self._dtype, self._device = weights, dtype, device
        self.stream_dtype = torch.float32 if device.type == "cpu" else dtype
        self.bytes = 0

    def tensor(self, name: str) -> Tensor:
        """A tensor in the dtype of the residual stream."""
        return self._counted(self._weights.read(name, self.stream_dtype, self._device))

    def table(self, name: str) -> Tensor:
        """A lookup table [rows, width]; on CPU it stays in the file, read row by row."""
        return self._counted(self._weights.map(name, self.stream_dtype, self._device))

    def linear(self, *names: str, activation: Activation | None = None) -> Linear:
        """``name.weight`` and ``name.bias``; several names make one product, in this order."""
        weight = self._factor([f"{name}.weight" for name in names])
        bias = self._factor([f"{name}.bias" for name in names])
        return linear(weight, bias, activation)

    def _factor(self, names: list[str]) -> Tensor:
        parts = [
            self._counted(self._weights.read(name, self._dtype, self._device)) for name in names
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _counted(self, tensor: Tensor) -> Tensor:
        self.bytes += tensor.nbytes
        return tensor

    def layer_norm(self, name: str, eps: float) -> Norm:
        """``name.weight`` and ``name.bias`` over the last dimension."""
        weight, bias = self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")
        shape = list(weight.shape)
        return lambda rows: torch.layer_norm(rows, shape, weight, bias, eps)

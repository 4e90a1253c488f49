"""Turns the tensors of a checkpoint into the operations that use them.

What every family shares when it builds itself: dtype and device are said once, products of one
input are fused, norms carry their epsilon. Knows no architecture.

On CPU only products and attention are computed in half precision; tables, norms and the stream of
residuals stay float32. That costs nothing measurable there and keeps MiniLM's vectors 4 to 5 times
closer to float32 (least cosine of 600 texts 0.99997 instead of 0.99989).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from shoal.runtimes.torch.linear import Activation, Linear, linear
from shoal.runtimes.torch.weights import Shape, Weights

Norm = Callable[[Tensor], Tensor]


class Layers:
    """Builds the parts of one model from its weights, in one dtype on one device.

    `dtype` is that of products, `stream_dtype` that of all else.
    """

    def __init__(self, weights: Weights, dtype: torch.dtype, device: torch.device) -> None:
        self._weights = weights
        self.dtype, self.device = dtype, device
        self.stream_dtype = torch.float32 if device.type == "cpu" else dtype
        self._bytes = 0
        self._beside: list[Layers] = []

    @property
    def bytes(self) -> int:
        """Bytes of all tensors that were handed out so far."""
        return self._bytes + sum(layers.bytes for layers in self._beside)

    @property
    def folder(self) -> Path:
        """The model's."""
        return self._weights.folder

    def __contains__(self, name: str) -> bool:
        return name in self._weights

    def expect(self, name: str, *shape: int | None) -> Shape:
        """The shape of a tensor; None fits any number. Raises `ModelLoadFailed` naming it."""
        return self._weights.expect(name, shape)

    def beside(self, name: str) -> Layers:
        """Those of a folder inside the model's, with weights of its own."""
        layers = Layers(Weights(self.folder / name, lambda stored: stored), self.dtype, self.device)
        self._beside.append(layers)
        return layers

    def read(self, name: str) -> Tensor:
        """A tensor in float32 from which others are computed; nobody keeps it, so it counts not."""
        return self._weights.read(name, torch.float32, self.device)

    def tensor(self, name: str) -> Tensor:
        """A tensor in the dtype of the residual stream."""
        return self.counted(self._weights.read(name, self.stream_dtype, self.device))

    def table(self, name: str) -> Tensor:
        """A lookup table [rows, width]; on CPU it stays in the file, read row by row."""
        return self.counted(self._weights.map(name, self.stream_dtype, self.device))

    def rows(self, name: str, numbers: list[int]) -> list[Tensor]:
        """Some rows of a table, in the dtype of the residual stream; the others are not read."""
        rows = self._weights.rows(name, numbers, self.stream_dtype, self.device)
        return [self.counted(row) for row in rows]

    def linear(
        self, *names: str, activation: Activation | None = None, bias: bool = True
    ) -> Linear:
        """``name.weight`` and ``name.bias``; several names make one product, in this order."""
        weights = [f"{name}.weight" for name in names]
        return self.product(weights, [f"{name}.bias" for name in names] if bias else [], activation)

    def product(
        self, weights: list[str], biases: Sequence[str | None], activation: Activation | None = None
    ) -> Linear:
        """As `linear`, by the whole names of the tensors; several are put one below the other.

        A bias of None is one of zeros; without any bias nothing is added.
        """
        given = [name for name in biases if name is not None]
        if not given or len(given) == len(biases):
            bias = self._factor(given) if given else None
        else:
            bias = torch.cat(
                [
                    torch.zeros(
                        self.expect(weight, None, None)[0], dtype=self.dtype, device=self.device
                    )
                    if name is None
                    else self._factor([name])
                    for weight, name in zip(weights, biases, strict=True)
                ]
            )
        return linear(self._factor(weights), bias, activation)

    def split(self, weight: str, bias: str, rows: int) -> tuple[Linear, Linear]:
        """One stored product as two: of its first `rows` outputs, and of the others."""
        both, shift = self._factor([weight]), self._factor([bias])
        return (
            linear(both[:rows].contiguous(), shift[:rows].contiguous()),
            linear(both[rows:].contiguous(), shift[rows:].contiguous()),
        )

    def factor(self, name: str) -> Tensor:
        """A tensor in the dtype of products."""
        return self._factor([name])

    def convolution(self, name: str, norm: str, eps: float) -> tuple[Tensor, Tensor]:
        """Weight and bias of a convolution with the batch norm after it, which is linear too."""
        parts = (f"{norm}.weight", f"{norm}.bias", f"{norm}.running_mean", f"{norm}.running_var")
        scale, shift, mean, variance = map(self.read, parts)
        weight = self.read(f"{name}.weight")
        scale = scale / torch.sqrt(variance + eps)
        weight, bias = weight * scale.view(-1, 1, 1, 1), shift - mean * scale
        weight = weight.contiguous(memory_format=torch.channels_last)
        return self.counted(weight.to(self.dtype)), self.counted(bias.to(self.dtype))

    def patches(self, name: str, bias: bool = True) -> Linear:
        """A convolution that goes on by its own width, as a product with squares.

        A row is a square of pixels, [height * width * channels]; stored is [out, channels, height,
        width].
        """
        weight = self._factor([f"{name}.weight"]).permute(0, 2, 3, 1).flatten(1)
        return linear(weight, self._factor([f"{name}.bias"]) if bias else None)

    def _factor(self, names: list[str]) -> Tensor:
        parts = [self.counted(self._weights.read(name, self.dtype, self.device)) for name in names]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def counted(self, tensor: Tensor) -> Tensor:
        """A tensor that the model holds, taken into account."""
        self._bytes += tensor.nbytes
        return tensor

    def layer_norm(self, name: str, eps: float, bias: bool = True) -> Norm:
        """``name.weight`` and ``name.bias`` over the last dimension."""
        weight = self.tensor(f"{name}.weight")
        shift = self.tensor(f"{name}.bias") if bias else None
        shape = list(weight.shape)
        return lambda rows: torch.layer_norm(rows.to(weight.dtype), shape, weight, shift, eps)

    def rms_norm(self, name: str, eps: float, centre: float = 0.0) -> Norm:
        """``name.weight``, counted from `centre`, over the last dimension; nothing is centred.

        Computed in float32, as models of this kind were trained: half precision of a weight near 1
        is three digits.
        """
        stored = self.counted(self._weights.read(f"{name}.weight", torch.float32, self.device))
        weight, dtype = stored + centre, self.stream_dtype
        shape = list(weight.shape)
        return lambda rows: torch.rms_norm(rows.float(), shape, weight, eps).to(dtype)

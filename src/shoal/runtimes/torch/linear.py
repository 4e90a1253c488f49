"""Matrix products by capability: oneDNN with weights laid out at load, else plain torch.

Knows nothing of models. On CPU the layout that `_reorder_linear_weight` makes, with bias,
activation and residual fused into the product, beats `torch.nn.functional.linear` (MiniLM's
shapes, float32, AMD Zen 4, medians of 15): 1.3-1.45x at 12 rows, 1.15-1.25x at 64 and
1.1-1.4x at 3,200, with one thread and with two.
"""

from __future__ import annotations

from typing import Literal, Protocol

import torch
from torch import Tensor

#: Activations by the names that config.json files use (`hidden_act`).
Activation = Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu", "tanh"]

#: activation -> the name and the algorithm oneDNN's fused product knows it by; the others come after it.
_FUSED: dict[Activation, tuple[str, str]] = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
    "tanh": ("tanh", ""),
}


class Linear(Protocol):
    """``activation(x W^T + b)``, or with a residual added instead of an activation.

    Computed in the weight's dtype, whatever the rows have.
    """

    def __call__(self, rows: Tensor) -> Tensor:
        """[n, in] -> [n, out] in the weight's dtype."""

    def add(self, rows: Tensor, residual: Tensor) -> Tensor:
        """[n, in] and [n, out] -> [n, out] in the residual's dtype: the sum; no activation."""


def linear(weight: Tensor, bias: Tensor | None, activation: Activation | None = None) -> Linear:
    """The fastest `Linear` for where this weight lives: [out, in], and bias [out]."""
    if _onednn_takes(weight):
        return _OneDnnLinear(weight, bias, activation)
    return _PlainLinear(weight, bias, activation)


def beside_table(weight: Tensor) -> Linear:
    """A product with a tensor that is looked up too: it stays as it is, and is held once.

    One thread, 8 rows by a table of 49,152 and 576, float32: 8 ms with a layout of its own, 13 so, 20 by
    plain torch.
    """
    if _onednn_takes(weight):
        return _OneDnnLinear(weight, None, None, laid_out=False)
    return _PlainLinear(weight, None, None)


def _onednn_takes(weight: Tensor) -> bool:
    # float16 products on CPU need AMX; without it oneDNN refuses them.
    return (
        weight.device.type == "cpu"
        and weight.dtype in (torch.float32, torch.bfloat16)
        and torch._C._has_mkldnn
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and (weight.dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


class _OneDnnLinear:
    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        activation: Activation | None,
        *,
        laid_out: bool = True,
    ) -> None:
        self._dtype = weight.dtype
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight) if laid_out else weight
        self._bias = bias
        fused = _FUSED.get(activation) if activation else None
        self._activation, self._algorithm = fused or ("none", "")
        self._after = None if fused else activation
        self._product = torch.ops.mkldnn._linear_pointwise.default
        self._product_add = torch.ops.mkldnn._linear_pointwise.binary

    def __call__(self, rows: Tensor) -> Tensor:
        rows = rows.to(self._dtype)
        product: Tensor = self._product(
            rows, self._weight, self._bias, self._activation, [], self._algorithm
        )
        return product if self._after is None else activated(product, self._after)

    def add(self, rows: Tensor, residual: Tensor) -> Tensor:
        if residual.dtype != self._dtype:
            return self(rows).to(residual.dtype).add_(residual)
        product: Tensor = self._product_add(rows, residual, self._weight, self._bias, "add")
        return product


class _PlainLinear:
    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation | None) -> None:
        self._weight, self._bias, self._activation = weight, bias, activation

    def __call__(self, rows: Tensor) -> Tensor:
        rows = rows.to(self._weight.dtype)
        product = torch.nn.functional.linear(rows, self._weight, self._bias)
        return product if self._activation is None else activated(product, self._activation)

    def add(self, rows: Tensor, residual: Tensor) -> Tensor:
        rows = rows.to(self._weight.dtype)
        product = torch.nn.functional.linear(rows, self._weight, self._bias)
        return product.to(residual.dtype).add_(residual)


def activated(rows: Tensor, activation: Activation) -> Tensor:
    """Rows after an activation by itself; in place where torch can."""
    match activation:
        case "gelu":
            return torch.nn.functional.gelu(rows)
        case "gelu_new" | "gelu_pytorch_tanh":
            return torch.nn.functional.gelu(rows, approximate="tanh")
        case "quick_gelu":
            return torch.sigmoid(1.702 * rows).mul_(rows)
        case "relu":
            return torch.relu_(rows)
        case "silu":
            return torch.nn.functional.silu(rows)
        case "tanh":
            return torch.tanh_(rows)

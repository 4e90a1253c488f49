"""The products against torch's own, whichever way they are computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from shoal.runtimes.torch.linear import Activation, Linear, _PlainLinear, linear

ACTIVATIONS: list[Activation | None] = [None, "gelu", "gelu_new", "gelu_pytorch_tanh", "relu"]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("make", [linear, _PlainLinear])
@pytest.mark.parametrize("rows", [1, 5, 130])
def test_products(make: Callable[..., Linear], activation: Activation | None, rows: int) -> None:
    torch.manual_seed(2)
    x, weight, bias = torch.randn(rows, 24), torch.randn(40, 24), torch.randn(40)
    with torch.inference_mode():
        product = functional.linear(x, weight, bias)
        expected = {
            None: product,
            "gelu": functional.gelu(product),
            "gelu_new": functional.gelu(product, approximate="tanh"),
            "gelu_pytorch_tanh": functional.gelu(product, approximate="tanh"),
            "relu": functional.relu(product),
        }[activation]
        ours = make(weight, bias, activation)
        torch.testing.assert_close(ours(x), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("make", [linear, _PlainLinear])
def test_residual(make: Callable[..., Linear]) -> None:
    x, weight, bias = torch.randn(7, 24), torch.randn(40, 24), torch.randn(40)
    residual = torch.randn(7, 40)
    kept = residual.clone()
    with torch.inference_mode():
        ours = make(weight, bias, None)
        torch.testing.assert_close(
            ours.add(x, residual), functional.linear(x, weight, bias) + residual
        )
    assert torch.equal(residual, kept)

"""The products against torch's own, whichever way they are computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from shoal.runtimes.torch.linear import (
    Activation,
    Linear,
    _PlainLinear,
    activated,
    beside_table,
    linear,
)

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": lambda rows: functional.gelu(rows, approximate="tanh"),
    "gelu_pytorch_tanh": lambda rows: functional.gelu(rows, approximate="tanh"),
    "quick_gelu": lambda rows: rows * torch.sigmoid(1.702 * rows),
    "relu": functional.relu,
    "silu": functional.silu,
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("make", [linear, _PlainLinear])
@pytest.mark.parametrize("rows", [1, 5, 130])
@pytest.mark.parametrize("biased", [True, False])
def test_products(
    make: Callable[..., Linear], activation: Activation | None, rows: int, biased: bool
) -> None:
    torch.manual_seed(2)
    x, weight = torch.randn(rows, 24), torch.randn(40, 24)
    bias = torch.randn(40) if biased else None
    with torch.inference_mode():
        product = functional.linear(x, weight, bias)
        expected = ACTIVATIONS[activation](product) if activation else product
        ours = make(weight, bias, activation)
        torch.testing.assert_close(ours(x), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_by_itself(activation: Activation) -> None:
    rows = torch.randn(5, 24)
    expected = ACTIVATIONS[activation](rows)
    torch.testing.assert_close(activated(rows, activation), expected)


@pytest.mark.parametrize("make", [linear, _PlainLinear])
@pytest.mark.parametrize("biased", [True, False])
def test_residual(make: Callable[..., Linear], biased: bool) -> None:
    x, weight = torch.randn(7, 24), torch.randn(40, 24)
    bias = torch.randn(40) if biased else None
    residual = torch.randn(7, 40)
    kept = residual.clone()
    with torch.inference_mode():
        ours = make(weight, bias, None)
        torch.testing.assert_close(
            ours.add(x, residual), functional.linear(x, weight, bias) + residual
        )
    assert torch.equal(residual, kept)


def test_a_table_stays_as_it_is() -> None:
    rows, table = torch.randn(3, 24), torch.randn(40, 24)
    with torch.inference_mode():
        product = beside_table(table)(rows)
        torch.testing.assert_close(product, functional.linear(rows, table))
        torch.testing.assert_close(torch.embedding(table, torch.tensor([7]))[0], table[7])

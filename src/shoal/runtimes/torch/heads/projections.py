"""Linear layers that a model was trained with but that are none of its architecture's.

A projection is named by where it lies: a folder beside the weights, as sentence-transformers saves
its `Dense` modules (``2_Dense``: config.json, model.safetensors); or, where there is no such
folder, the prefix of its tensors in the model's own file (``linear``, as ColBERT has it).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from torch import Tensor

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.configs import read_config
from shoal.runtimes.torch.heads.layout import Linear
from shoal.runtimes.torch.heads.steps import Stack
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation

#: `activation_function` of a Dense module, without its package -> ours.
_ACTIVATIONS: dict[str, Activation | None] = {
    "Identity": None,
    "Tanh": "tanh",
    "ReLU": "relu",
    "GELU": "gelu",
}


class _Dense(msgspec.Struct, frozen=True):
    """A module's config.json; what it leaves out has sentence-transformers' defaults."""

    activation_function: str = "torch.nn.modules.activation.Tanh"
    bias: bool = True
    use_residual: bool = False


class Projections:
    """Some projections in a row: [n, width] -> [n, `width`]; without any, rows as they are."""

    def __init__(self, names: Sequence[str], layers: Layers, width: int) -> None:
        """Raises `ModelLoadFailed` naming what is missing or computes otherwise."""
        self._stacks: list[Stack] = []
        self.width = width
        for name in names:
            stack = _stack(name, layers, self.width)
            self._stacks.append(stack)
            self.width = stack.width

    def __call__(self, rows: Tensor) -> Tensor:
        for stack in self._stacks:
            rows = stack(rows)
        return rows


def _stack(name: str, layers: Layers, width: int) -> Stack:
    folder = layers.folder / name
    if not folder.is_dir():
        return Stack((Linear(name, bias=f"{name}.bias" in layers),), layers, width)
    config = read_config(folder / "config.json", _Dense)
    if config.use_residual:
        raise ModelLoadFailed(f"{folder}: use_residual is not computed")
    kind = config.activation_function.rpartition(".")[2]
    if kind not in _ACTIVATIONS:
        raise ModelLoadFailed(
            f"{folder}: activation_function is {config.activation_function}; "
            f"computed are {', '.join(_ACTIVATIONS)}"
        )
    step = Linear("linear", _ACTIVATIONS[kind], config.bias)
    return Stack((step,), layers.beside(name), width)

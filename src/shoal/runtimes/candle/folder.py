"""The folder that the library reads a model from: ours, made for the load and gone after it.

Weights are the model's own (`weights`); what says how they are computed is written, so that the library
guesses nothing. Its layout is that of sentence-transformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from shoal.errors import ModelLoadFailed
from shoal.runtimes.candle import weights
from shoal.runtimes.candle.configs import Keys
from shoal.runtimes.candle.head import Dense
from shoal.runtimes.candle.spelling import tokenizer

_WEIGHTS = "model.safetensors"
_MODES = {"mean": "mean_tokens", "cls": "cls_token", "last": "lasttoken"}
#: `activation_function` of a Dense module by the name that it may have -> as the library knows it.
_ACTIVATIONS = {
    "Identity": "torch.nn.modules.linear.Identity",
    "Tanh": "torch.nn.modules.activation.Tanh",
}


class _Module(msgspec.Struct):
    """A Dense module's config.json; what it leaves out has sentence-transformers' defaults."""

    in_features: int
    out_features: int
    bias: bool = True
    activation_function: str = "torch.nn.modules.activation.Tanh"
    use_residual: bool = False


def make(folder: Path, model: Path, config: dict[str, Any], keys: Keys, head: Dense) -> None:
    """Fill an empty `folder` for the model at `model`. Raises `ModelLoadFailed`, `OSError`."""
    weights.place(folder, model, keys.prefixes)
    _write(folder / "config.json", config)
    (folder / "tokenizer.json").write_bytes(tokenizer(keys.vocab_size))
    (folder / "1_Pooling").mkdir()
    _write(folder / "1_Pooling" / "config.json", {f"pooling_mode_{_MODES[head.pooling]}": True})
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    for number, name in enumerate(head.projections, start=len(modules)):
        own = f"{number}_Dense"
        _project(folder / own, model / name)
        modules.append(("Dense", own))
    types = [{"type": f"sentence_transformers.models.{of}", "path": path} for of, path in modules]
    _write(folder / "modules.json", types)


def _project(folder: Path, module: Path) -> None:
    """A Dense module. The library ignores a residual, and computes two activations."""
    if not module.is_dir():
        raise ModelLoadFailed(
            f"the candle runtime computes projections that are folders; {module} is none"
        )
    path = module / "config.json"
    try:
        said = msgspec.json.decode(path.read_bytes(), type=_Module)
    except msgspec.DecodeError as error:
        raise ModelLoadFailed(f"{path}: {error}") from None
    kind = said.activation_function.rpartition(".")[2]
    if said.use_residual or kind not in _ACTIVATIONS:
        raise ModelLoadFailed(
            f"{path}: the candle runtime computes {' and '.join(_ACTIVATIONS)} without a residual, "
            f"not {said.activation_function}"
        )
    folder.mkdir()
    (folder / _WEIGHTS).symlink_to((module / _WEIGHTS).resolve())
    said = msgspec.structs.replace(said, activation_function=_ACTIVATIONS[kind])
    _write(folder / "config.json", said)


def _write(path: Path, value: Any) -> None:
    path.write_bytes(msgspec.json.encode(value))

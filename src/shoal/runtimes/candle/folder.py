"""The folder that the library reads a model from: ours, made for the load and gone after it.

Weights are links to the model's own; what says how they are computed is written, so that the library
guesses nothing. Its layout is that of sentence-transformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from shoal.errors import ModelLoadFailed
from shoal.runtimes.candle.head import Dense
from shoal.runtimes.candle.spelling import tokenizer

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_MODES = {"mean": "mean_tokens", "cls": "cls_token", "last": "lasttoken"}
#: `activation_function` of a Dense module by the name that it may have -> as the library knows it.
_ACTIVATIONS = {
    "Identity": "torch.nn.modules.linear.Identity",
    "Tanh": "torch.nn.modules.activation.Tanh",
}


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


class _Module(msgspec.Struct):
    """A Dense module's config.json; what it leaves out has sentence-transformers' defaults."""

    in_features: int
    out_features: int
    bias: bool = True
    activation_function: str = "torch.nn.modules.activation.Tanh"
    use_residual: bool = False


def make(folder: Path, model: Path, config: dict[str, Any], vocabulary: int, head: Dense) -> None:
    """Fill an empty `folder` for the model at `model`. Raises `ModelLoadFailed`, `OSError`."""
    _link_weights(folder, model)
    _write(folder / "config.json", config)
    (folder / "tokenizer.json").write_bytes(tokenizer(vocabulary))
    (folder / "1_Pooling").mkdir()
    _write(folder / "1_Pooling" / "config.json", {f"pooling_mode_{_MODES[head.pooling]}": True})
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    for number, name in enumerate(head.projections, start=len(modules)):
        own = f"{number}_Dense"
        _project(folder / own, model / name)
        modules.append(("Dense", own))
    types = [{"type": f"sentence_transformers.models.{of}", "path": path} for of, path in modules]
    _write(folder / "modules.json", types)


def _link_weights(folder: Path, model: Path) -> None:
    names = [_WEIGHTS]
    if not (model / _WEIGHTS).is_file():
        if not (model / _INDEX).is_file():
            raise ModelLoadFailed(f"{model} has neither {_WEIGHTS} nor {_INDEX}")
        names = [_INDEX, *sorted(set(_shards(model / _INDEX)))]
    for name in names:
        if Path(name).name != name:
            raise ModelLoadFailed(f"{model / _INDEX} names a file outside the folder: {name}")
        (folder / name).symlink_to((model / name).resolve())


def _shards(index: Path) -> list[str]:
    try:
        return list(msgspec.json.decode(index.read_bytes(), type=_Index).weight_map.values())
    except msgspec.DecodeError as error:
        raise ModelLoadFailed(f"{index}: {error}") from None


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

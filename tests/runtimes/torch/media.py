"""Small random models of images and sound as transformers saves them, and batches for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Done, Run
from tests.runtimes.torch.made import Floats

#: Mean and deviation of each channel, none equal to another's, nor to those of any default.
MEAN, STD = (0.41, 0.47, 0.53), (0.22, 0.27, 0.31)
#: Tokens, media, or tokens with the images that stand among them.
Item = list[int] | NDArray[Any] | tuple[list[int], NDArray[Any]]


def save(folder: Path, model: Any, size: Any = 16, **processor: Any) -> Any:
    """The model with random weights of a size at which mistakes show, and its processor."""
    torch.manual_seed(7)
    for name, parameter in model.named_parameters():
        if name.endswith(("norm.weight", "norm1.weight", "norm2.weight")):
            torch.nn.init.normal_(parameter, mean=1.0, std=0.2)
        elif parameter.ndim > 0 and "logit" not in name:
            torch.nn.init.normal_(parameter, std=0.15)
    model.eval().save_pretrained(folder)
    said = {"size": size, "crop_size": size, "image_mean": MEAN, "image_std": STD} | processor
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    return model


def images(count: int, size: int = 16, seed: int = 4) -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    return list(rng.integers(0, 256, (count, size, size, 3), dtype=np.uint8))


def pixel_values(items: list[NDArray[np.uint8]]) -> torch.Tensor:
    """As the processors of transformers end: [items, 3, height, width]."""
    scaled = (np.stack(items) / 255 - np.array(MEAN)) / np.array(STD)
    return torch.from_numpy(np.moveaxis(scaled, 3, 1).astype(np.float32))


def run(runtime: TorchRuntime, items: Sequence[Item], head: str = "dense", **more: Any) -> Done:
    """Token ids and media, in any order, as one batch; `more` fields of it."""
    parts = [_parts(item) for item in items]
    tokens = [np.array(ids, np.int32) for ids, _ in parts]
    inputs = [to_wire(media) for _, media in parts]
    lengths = np.array([len(ids) for ids in tokens], np.int32)
    return runtime.run(
        Run(
            1,
            "m",
            [head],
            to_wire(np.concatenate(tokens)),
            to_wire(lengths),
            inputs=inputs,
            **more,
        )
    )


def _parts(item: Item) -> tuple[list[int], NDArray[Any]]:
    if isinstance(item, tuple):
        return item
    return (item, np.zeros(0, np.uint8)) if isinstance(item, list) else ([], item)


def rows(done: Done, head: str = "dense") -> Floats:
    assert not done.failed, done.failed
    return from_wire(done.arrays[head])


def close(ours: Floats, theirs: torch.Tensor | Floats, atol: float = 2e-5) -> None:
    """Near in every number, and in direction far beyond what a model's quality rests on."""
    expected = np.asarray(theirs, np.float64)
    np.testing.assert_allclose(ours, expected, atol=atol, rtol=2e-5)
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(expected, axis=1)
    assert ((ours * expected).sum(1) / norms).min() > 0.9999

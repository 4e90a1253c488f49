"""Reads the tensors of one model folder: safetensors only, checked against what is expected.

Knows file formats and names, not architectures: a family says which tensors it wants and of
which shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from shoal.errors import ModelLoadFailed

Shape = tuple[int, ...]

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_NAMED_AT_MOST = 5  # tensors an error lists before it only counts


class _ShardIndex(msgspec.Struct):
    weight_map: dict[str, str]


class Weights:
    """The tensors of a folder under the names a family knows.

    `rename` maps a name in the files to the family's name, or to None for a tensor that nothing
    is ever computed with (stored position ids).
    """

    def __init__(self, folder: Path, rename: Callable[[str], str | None]) -> None:
        self.folder = folder
        self._files = {name: _open(folder / name) for name in _file_names(folder)}
        self._where: dict[str, tuple[str, str]] = {}
        for file, handle in self._files.items():
            for stored in handle.keys():  # noqa: SIM118 (a safetensors handle is no mapping)
                if (name := rename(stored)) is not None:
                    self._add(name, file, stored)

    def _add(self, name: str, file: str, stored: str) -> None:
        """Raises `ModelLoadFailed` where two tensors go by one name and differ."""
        if name in self._where:
            also, other = self._where[name]
            one, two = _tensor(self._files[file], stored), _tensor(self._files[also], other)
            if not torch.equal(one, two):
                raise ModelLoadFailed(f"{self.folder}: {stored} and {other} should be the same")
        self._where[name] = (file, stored)

    def half_dtype(self) -> torch.dtype:
        """bfloat16 where the largest tensor is stored so, else float16.

        float16 is the closer one, but a model trained in bfloat16 may leave its range.
        """
        largest = max(self._where, key=lambda name: math.prod(self._slice(name).get_shape()))
        return torch.bfloat16 if self._slice(largest).get_dtype() == "BF16" else torch.float16

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def expect(self, name: str, shape: tuple[int | None, ...]) -> Shape:
        """The shape of a tensor; None fits any number. Raises `ModelLoadFailed` naming it."""
        found = tuple(self._slice(name).get_shape())
        fits = [want in (None, have) for want, have in zip(shape, found, strict=False)]
        if len(shape) != len(found) or not all(fits):
            wanted = ["any" if want is None else want for want in shape]
            raise ModelLoadFailed(f"{self.folder}: {name} is {list(found)}, not {wanted}")
        return found

    def check(self, expected: Mapping[str, Shape]) -> None:
        """Raises `ModelLoadFailed` naming missing, unexpected and wrongly shaped tensors.

        Unexpected are those beside expected ones (``encoder.…``); what begins otherwise belongs
        to some head, and only heads that were asked for look for theirs.
        """
        roots = {_root(name) for name in expected}
        there = {name for name in self._where if _root(name) in roots}
        wrong = [
            f"{name} is {found}, not {list(expected[name])}"
            for name in expected.keys() & there
            if (found := self._slice(name).get_shape()) != list(expected[name])
        ]
        problems = {
            "missing tensors": expected.keys() - there,
            "unexpected tensors": there - expected.keys(),
            "tensors of another shape than config.json says": wrong,
        }
        said = [f"{what}: {_listed(names)}" for what, names in problems.items() if names]
        if said:
            raise ModelLoadFailed(f"{self.folder}: {'; '.join(said)}")

    def read(self, name: str, dtype: torch.dtype, device: torch.device) -> Tensor:
        """A private copy of a tensor, so that nothing keeps the file mapped."""
        file, stored = self._at(name)
        return _tensor(self._files[file], stored).to(device, dtype, copy=True)

    def map(self, name: str, dtype: torch.dtype, device: torch.device) -> Tensor:
        """A tensor that stays in the file where dtype and device allow it.

        For lookup tables: only rows that were asked for ever reach memory.
        """
        file, stored = self._at(name)
        # A handle of its own: the mapping lives as long as this tensor and no longer.
        return _tensor(_open(self.folder / file), stored).to(device, dtype)

    def rows(
        self, name: str, numbers: list[int], dtype: torch.dtype, device: torch.device
    ) -> list[Tensor]:
        """Some rows of a table, each by itself; nothing else of it is read."""
        table = self._slice(name)
        return [table[number].to(device, dtype, copy=True) for number in numbers]

    def _at(self, name: str) -> tuple[str, str]:
        """File, and name there. Raises `ModelLoadFailed` naming the tensor."""
        if name not in self._where:
            raise ModelLoadFailed(f"{self.folder}: missing tensor: {name}")
        return self._where[name]

    def _slice(self, name: str) -> Any:
        file, stored = self._at(name)
        return self._files[file].get_slice(stored)


def _file_names(folder: Path) -> list[str]:
    if (folder / _SINGLE).is_file():
        return [_SINGLE]
    if (folder / _INDEX).is_file():
        return _sharded(folder)
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        raise ModelLoadFailed(
            f"{folder} holds weights only as {', '.join(pickles)}: pickle files can run code and "
            f"are never opened. Convert the model to safetensors ({_SINGLE})."
        )
    raise ModelLoadFailed(f"{folder} has no {_SINGLE} and no {_INDEX}")


def _sharded(folder: Path) -> list[str]:
    try:
        index = msgspec.json.decode((folder / _INDEX).read_bytes(), type=_ShardIndex)
    except msgspec.DecodeError as error:
        raise ModelLoadFailed(f"{folder / _INDEX}: {error}") from None
    names = sorted(set(index.weight_map.values()))
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise ModelLoadFailed(f"{folder / _INDEX} names {name!r}, which is not in the folder")
    return names


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelLoadFailed(f"{path} is not a readable safetensors file: {error}") from None


def _root(name: str) -> str:
    return name.partition(".")[0]


def _tensor(handle: Any, stored: str) -> Tensor:
    tensor: Tensor = handle.get_tensor(stored)
    return tensor


def _listed(names: Any) -> str:
    ordered = sorted(names)
    more = len(ordered) - _NAMED_AT_MOST
    return ", ".join(ordered[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")

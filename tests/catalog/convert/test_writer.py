from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from shoal.catalog.conversion import StoredDType
from shoal.catalog.convert.tensors import Tensor, stored
from shoal.catalog.convert.writer import write
from shoal.errors import SourceError

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "b.weight": RANDOM.normal(size=(5, 3)).astype(np.float32),
    "a.bias": RANDOM.normal(size=7).astype(np.float32),
    "scalar": np.array(2.5, np.float32),
    "none": np.zeros((0, 4), np.float32),
}


def silent(done: int, total: int) -> None:
    pass


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_safetensors_reads_what_was_written(tmp_path: Path, dtype: StoredDType) -> None:
    file = tmp_path / "model.safetensors"
    told: list[tuple[int, int]] = []
    tensors = {name: stored(array) for name, array in ARRAYS.items()}
    write(file, tensors, dtype, lambda done, total: told.append((done, total)))
    read = load_file(file)
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        expected = torch.from_numpy(array).to(getattr(torch, dtype))
        assert read[name].dtype == expected.dtype
        assert torch.equal(read[name], expected)
    assert told[-1] == (told[0][1], told[0][1])
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    with safe_open(file, "pt") as handle:
        assert handle.metadata() == {"format": "pt"}


def test_bfloat16_rounds_as_torch_does(tmp_path: Path) -> None:
    bits = RANDOM.integers(0, 0x7F7F_0000, size=5000, dtype=np.uint32)
    ties = np.arange(1, 2000, dtype=np.uint32) << 16 | 0x8000
    values = np.concatenate([bits, ties]).view(np.float32)
    file = tmp_path / "model.safetensors"
    write(file, {"x": stored(values)}, "bfloat16", silent)
    assert torch.equal(load_file(file)["x"], torch.from_numpy(values).bfloat16())


@pytest.mark.parametrize(
    ("value", "dtype", "problem"),
    [
        (np.nan, "float32", "tensor 'x' holds values that are no finite numbers"),
        (np.inf, "bfloat16", "tensor 'x' holds values that are no finite numbers"),
        (1e6, "float16", "tensor 'x' holds values beyond float16"),
    ],
)
def test_values_that_cannot_be_kept(
    tmp_path: Path, value: float, dtype: StoredDType, problem: str
) -> None:
    with pytest.raises(SourceError, match=problem):
        write(tmp_path / "x", {"x": stored(np.array([0, value], np.float32))}, dtype, silent)


def test_a_reader_that_said_another_shape(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"x": Tensor((2,), lambda: np.zeros(3))}
    with pytest.raises(SourceError, match=r"tensor 'x' is \(3,\), not \(2,\)"):
        write(tmp_path / "x", wrong, "float32", silent)

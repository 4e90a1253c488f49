from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shoal.catalog.convert.pth import read
from shoal.errors import SourceError


def saved(folder: Path, state: Any, *, zipped: bool = True) -> list[Path]:
    file = folder / "model.pth"
    torch.save(state, file, _use_new_zipfile_serialization=zipped)
    return [file]


def small() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).state_dict()


@pytest.mark.parametrize("zipped", [True, False])
def test_a_state_dict(tmp_path: Path, zipped: bool) -> None:
    state = small()
    found = read(saved(tmp_path, state, zipped=zipped), tmp_path).tensors
    assert found.keys() == state.keys() - {"1.num_batches_tracked"}
    for name, tensor in found.items():
        assert tensor.shape == tuple(state[name].shape)
        np.testing.assert_array_equal(tensor.read(), state[name].numpy())


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_that_share_a_storage(tmp_path: Path, zipped: bool) -> None:
    whole = torch.arange(12.0).view(3, 4)
    state = {"turned": whole.T, "part": whole[1:, 2], "half": whole.half(), "one": whole[0, 0]}
    found = read(saved(tmp_path, state, zipped=zipped), tmp_path).tensors
    for name, weights in state.items():
        np.testing.assert_array_equal(found[name].read(), weights.numpy())


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("/tmp/never-made",)


@pytest.mark.parametrize("zipped", [True, False])
def test_no_code_is_run(tmp_path: Path, zipped: bool) -> None:
    with pytest.raises(SourceError, match=r"model.pth: .* calls .*mkdir"):
        read(saved(tmp_path, {"x": Evil()}, zipped=zipped), tmp_path)
    assert not Path("/tmp/never-made").exists()


@pytest.mark.parametrize("what", [torch.nn.Linear(2, 2), {1, 2}, [torch.ones(2)]])
def test_what_is_no_dict_of_tensors(tmp_path: Path, what: Any) -> None:
    with pytest.raises(SourceError, match=r"model.pth: not a readable state dict"):
        read(saved(tmp_path, what), tmp_path)


def test_files_that_were_cut(tmp_path: Path) -> None:
    [file] = saved(tmp_path, small(), zipped=False)
    data = file.read_bytes()
    for end in range(0, len(data), 41):
        file.write_bytes(data[:end])
        with pytest.raises(SourceError):
            for tensor in read([file], tmp_path).tensors.values():
                tensor.read()


def test_a_zip_without_a_state_dict(tmp_path: Path) -> None:
    [file] = saved(tmp_path, small())
    file.write_bytes(file.read_bytes().replace(b"data.pkl", b"data.xyz"))
    with pytest.raises(SourceError, match=r"model.pth: not a readable state dict"):
        read([file], tmp_path)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.catalog.convert.ctranslate2 import read_model
from shoal.errors import SourceError

from .ct2_files import model

VARIABLES: dict[str, NDArray[Any]] = {
    "a/weight": np.arange(6, dtype=np.float16).reshape(2, 3),
    "heads": np.array(6, np.int16),
    "b": np.array([1.5], np.float32),
}


def written(folder: Path, data: bytes) -> Path:
    (folder / "model.bin").write_bytes(data)
    return folder / "model.bin"


def test_variables(tmp_path: Path) -> None:
    found = read_model(written(tmp_path, model("SomeSpec", VARIABLES)))
    assert found.spec == "SomeSpec"
    assert found.variables.keys() == VARIABLES.keys()
    for name, array in VARIABLES.items():
        assert found.variables[name].dtype == array.dtype
        np.testing.assert_array_equal(found.variables[name], array)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    good = model("SomeSpec", VARIABLES)
    for data, problem in (
        (b"", "empty"),
        (model("SomeSpec", VARIABLES, version=5), "version 5; known is 6"),
        (good[:40], "the file ends"),
        (good.replace(b"heads\0\0\x02", b"heads\0\0\x09"), "'heads' is of unknown type 9"),
        (good.replace(b"\x04\x0c\0\0\0", b"\x04\x0a\0\0\0"), "'a/weight' has 10 bytes where"),
    ):
        with pytest.raises(SourceError, match=f"model.bin: not a readable .*{problem}"):
            read_model(written(tmp_path, data))

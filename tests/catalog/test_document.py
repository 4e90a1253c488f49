from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from shoal.catalog.document import read_json
from shoal.errors import ModelLoadFailed


class Numbers(msgspec.Struct):
    layers: int = 0
    name: str = ""


def test_a_file_is_read_and_one_that_is_not_there_may_be_allowed(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    assert read_json(path, Numbers, Numbers(7)) == Numbers(7)
    with pytest.raises(ModelLoadFailed, match=r"config\.json cannot be read: No such file"):
        read_json(path, Numbers)
    path.write_text('{"layers": "3"}')
    assert read_json(path, Numbers, strict=False) == Numbers(3)


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"layers": "x"}', b'{"name": "\xff"}', b"[" * 100_000]
)
def test_one_that_says_something_else_is_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(data)
    with pytest.raises(ModelLoadFailed, match=r"config\.json cannot be read: .+; replace the file"):
        read_json(path, Numbers, Numbers())

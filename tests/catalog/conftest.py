from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip, as its user configured it, takes wheels from."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "cache")

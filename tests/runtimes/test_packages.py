from __future__ import annotations

import sys

import pytest

from shoal.runtimes.packages import NEEDED, missing
from shoal.runtimes.serve import KINDS


def test_every_kind_is_told_what_it_needs() -> None:
    assert NEEDED.keys() <= KINDS.keys()
    assert [missing(kind) for kind in KINDS] == [None] * len(KINDS)


def test_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    said = missing("onnx")
    assert said is not None
    assert "needs the package 'onnxruntime': pip install 'shoal[onnx]'" in said
    assert missing("fake") is None

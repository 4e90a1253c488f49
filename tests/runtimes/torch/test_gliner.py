"""Tiny GLiNERs of several families find what their own library found, as it was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.catalog.infer import infer
from tests.e2e.direct import Direct
from tests.runtimes.torch import gliner


@pytest.mark.parametrize("family", gliner.FAMILIES)
def test_entities_are_those_of_the_reference(tmp_path: Path, family: str) -> None:
    """From the folder alone: its card is inferred."""
    gliner.save(tmp_path, family)
    direct = Direct(infer(str(tmp_path)), tmp_path)
    golden = json.loads(gliner.GOLDEN.read_text())[family]
    assert golden.keys() == gliner.OPTIONS.keys()
    assert any(any(found) for found in golden.values())
    for name, options in gliner.OPTIONS.items():
        gliner.same(direct.extract(gliner.TEXTS, gliner.LABELS, **options), golden[name])

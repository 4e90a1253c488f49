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


def test_fields_are_filled_in_with_what_is_found(tmp_path: Path) -> None:
    """Each label's likeliest entity, and all of a list, are those that it finds by labels."""
    gliner.save(tmp_path, "roberta")
    direct = Direct(infer(str(tmp_path)), tmp_path)
    first, *others = gliner.LABELS
    texts = {"type": "array", "items": {"type": "string"}}
    properties = {"one": {"type": "string", "description": first}} | dict.fromkeys(others, texts)
    schema = json.dumps({"type": "object", "properties": properties})
    options = {"threshold": 0.1}
    by_labels = direct.extract(gliner.TEXTS, gliner.LABELS, **options)
    by_schema = direct.extract(gliner.TEXTS, None, schema=schema, **options)
    for labelled, filled in zip(by_labels, by_schema, strict=True):
        assert labelled.entities is not None
        assert filled.fields is not None
        ones = [e for e in labelled.entities if e.label == first]
        best = max(ones, key=lambda e: e.score).text if ones else None
        assert filled.fields["one"] == best
        for label in others:
            found = [e.text for e in labelled.entities if e.label == label]
            assert filled.fields[label] == found

"""Heads over rows that are written down; against the reference they stand in test_families."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.errors import ModelLoadFailed
from shoal.runtimes.onnx.encoders.heads import heads_of

ROWS = np.array([[3, 4], [0, 2], [6, 8], [1, 0], [-5, 12]], np.float32)
LENGTHS = np.array([2, 3], np.int64)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", [[1.5, 3], [2 / 3, 20 / 3]]),
        ("last", [[0, 2], [-5, 12]]),
        ("max", [[3, 4], [6, 12]]),
    ],
)
def test_poolings(pooling: str, expected: Any) -> None:
    head = heads_of({"dense": {"pooling": pooling}})["dense"]
    assert head.value == "hidden"
    np.testing.assert_allclose(head.compute(ROWS, LENGTHS).values, expected, rtol=1e-6)


def test_vectors_of_tokens_have_length_1() -> None:
    head = heads_of({"multivector": {"head": "colbert", "projections": []}})["multivector"]
    said = head.compute(ROWS, LENGTHS)
    assert said.lengths is not None
    assert said.lengths.tolist() == [2, 3]
    np.testing.assert_allclose(said.values[[0, 4]], [[0.6, 0.8], [-5 / 13, 12 / 13]], rtol=1e-6)
    assert head.compute(0 * ROWS, LENGTHS).values.tolist() == np.zeros((5, 2)).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "colbert", "projections": ["linear"]}, "head 'colbert': .* no projections"),
        ({"head": "dense", "pooling": "men"}, r"no pooling 'men' \(did you mean 'mean'\?\)"),
        ({"head": "lexical"}, "no head 'lexical'"),
    ],
)
def test_what_is_not_computed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelLoadFailed, match=message):
        heads_of({"out": options})

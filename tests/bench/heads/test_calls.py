"""What libraries answer, as rows of float32 whatever they compute in."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.bench.heads.calls import library
from shoal.bench.libraries import Dtype
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog

TEXTS = ["a ship", "the harbour of the island is large", "paper"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vectors_of_tokens(dtype: Dtype) -> None:
    card = Catalog.load().card("answerai-colbert-small-v1-backbone")
    folder = fetch(card, cache_dir=None, offline=False)
    model = library("multivector", folder, "", dtype)
    rows = model.rows(TEXTS, model.call(TEXTS, 2))
    assert rows.dtype == np.float32
    assert rows.shape == (4 + 9 + 3, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=0.01)

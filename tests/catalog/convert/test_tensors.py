from __future__ import annotations

import numpy as np
import pytest

from shoal.catalog.convert.tensors import renamed, stored
from shoal.errors import SourceError

TENSORS = {name: stored(np.zeros(size)) for size, name in enumerate(["enc.a", "enc.skip.b", "c"])}


def test_the_first_start_that_fits_is_replaced() -> None:
    found = renamed(TENSORS, {"enc.skip.": None, "enc.": "encoder."})
    assert {name: each.shape for name, each in found.items()} == {"encoder.a": (0,), "c": (2,)}
    assert renamed(TENSORS, {}) == TENSORS
    assert "model.enc.a" in renamed(TENSORS, {"": "model."})


def test_no_tensor_is_lost_under_the_name_of_another() -> None:
    with pytest.raises(SourceError, match=r"tensor 'c' is there twice; correct `convert.rename`"):
        renamed(TENSORS, {"enc.a": "c"})

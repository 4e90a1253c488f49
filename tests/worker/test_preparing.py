"""What a tokenizer may do to the thread that runs it: nothing."""

from __future__ import annotations

from typing import cast

from shoal.errors import ComputeFailed
from shoal.values import EncodeParams
from shoal.wire.queue import Unit
from shoal.worker.preparing import prepare
from shoal.worker.text import Preparer


class Panic(BaseException):
    """As pyo3 raises for a panic in Rust: https://docs.rs/pyo3/latest/pyo3/panic/."""


class Panicking:
    def prepare(self, items: list[str], params: EncodeParams) -> None:
        raise Panic("index out of bounds")


def test_a_panic_of_the_tokenizer_fails_the_unit_only() -> None:
    params = EncodeParams()
    unit = Unit("u", "r", "m", "encode", params, "json", [b'"fish"'], 1.0, "reply")
    (outcome,) = prepare(unit, unit.items, cast(Preparer, Panicking()))
    assert isinstance(outcome, ComputeFailed)
    assert "index out of bounds" in outcome.message

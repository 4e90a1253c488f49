"""Real models converted anew, and what is shown of them."""

from __future__ import annotations

import msgspec
import pytest

from shoal.bench import report
from shoal.bench.failure import BenchFailed
from shoal.bench.zoo import measure
from shoal.bench.zoo.closeness import Closeness
from shoal.bench.zoo.measure import QUICK, Head, Plan, Result, Row
from shoal.bench.zoo.originals import LIBRARIES

EXACT = Closeness(0.99999995, 0.99999998, 1e-6, 20, 20)
ROUNDED = Closeness(0.71, 0.9, 3.0, 18, 20)


def result(*heads: Head) -> Result:
    row = Row("m", "float32", 1.23, "onnxruntime 1.32", 20, [*heads])
    return Result(report.this_machine([]), Plan(), [row])


def test_converted_models_are_their_originals() -> None:
    """One of float32, and one of int8, whose file rounds activations."""
    found = measure.measure(QUICK, lambda _: None)
    assert found.problems == []
    small, large = found.rows
    assert small.by.startswith("onnxruntime ")
    assert small.cpu_s > 0
    assert small.heads[0].unrounded is None
    assert small.heads[0].shipped.worst > 0.999999
    assert large.heads[0].shipped.worst < 0.9999
    assert large.heads[0].unrounded is not None
    assert large.heads[0].unrounded.worst > 0.99999


def test_a_model_that_is_not_converted_is_told() -> None:
    with pytest.raises(BenchFailed, match="all-MiniLM-L6-v2 is not converted; compared are "):
        measure.measure(Plan(models=("all-MiniLM-L6-v2",)), lambda _: None)


def test_what_cannot_be_run_here_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = msgspec.structs.replace(
        LIBRARIES["onnx"],
        packages=("no-such-package", "numpy"),
        modules=("no_such_package", "numpy"),
    )
    monkeypatch.setitem(LIBRARIES, "onnx", absent)
    found = measure.measure(Plan(models=("paraphrase-MiniLM-L3-v2",)), lambda _: None)
    assert found.problems == []
    assert "| not run here: pip install no-such-package |" in measure.table(found)


def test_rounding_of_the_original_is_no_fault() -> None:
    right = result(Head("dense", "vectors", ROUNDED, EXACT))
    assert right.problems == []
    shown = measure.table(right)
    assert "| vectors of 20 | worst cosine 0.7100, mean 0.9000 | worst cosine 0.9999999" in shown
    assert shown.endswith("converted in 1 s of processor")


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (Head("dense", "vectors", EXACT, ROUNDED), "m, dense: worst cosine 0.7100, mean 0.9000"),
        (Head("extract", "labels", ROUNDED, None), "mean 0.9000, 18 of 20 the same"),
        (Head("score", "scores", Closeness(1, 1, 0.02, 1, 1), None), "0.02 apart at most"),
        (Head("extract", "texts", Closeness(0, 0.5, 0, 1, 2), None), "m, extract: 1 of 2 the same"),
        (Head("dense", "vectors", Closeness(float("nan"), 1, 0, 1, 1), None), "cosine nan"),
    ],
)
def test_other_weights_are_a_problem(head: Head, told: str) -> None:
    missed = result(head)
    assert told in missed.problems[0]
    assert "| MISSED |" in measure.table(missed)

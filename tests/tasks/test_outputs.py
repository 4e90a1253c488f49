"""Rows of a whole batch as callers want them."""

import numpy as np
import pytest

from shoal.catalog.tasks import Dense, EncodeTask, ExtractTask, Multivector, ScoreTask, Tasks
from shoal.tasks.outputs import finished, is_ragged, needed, of_tokens
from shoal.values import EncodeParams, ExtractParams, Params, ScoreParams
from shoal.wire.outputs import Output, Sparse

TASKS = Tasks(
    encode=EncodeTask(dense=Dense(3), multivector=Multivector(2)),
    score=ScoreTask("maxsim"),
    extract=ExtractTask("token-labels"),
)


@pytest.mark.parametrize(
    ("params", "outputs"),
    [
        (EncodeParams(("sparse", "dense")), ("sparse", "dense")),
        (EncodeParams(("fde",)), ("multivector",)),
        (EncodeParams(("multivector", "fde", "dense")), ("multivector", "dense")),
        (ScoreParams(b""), ("multivector",)),
        (ExtractParams(), ("extract",)),
    ],
)
def test_what_a_model_must_compute(params: Params, outputs: tuple[str, ...]) -> None:
    assert needed(params, TASKS) == outputs


def test_how_scores_are_computed() -> None:
    assert needed(ScoreParams(b""), Tasks(score=ScoreTask())) == ("score",)
    assert needed(ScoreParams(b""), Tasks(score=ScoreTask("yes-no"))) == ("score",)
    assert needed(ScoreParams(b""), Tasks(score=ScoreTask("cosine"))) == ("dense",)


def test_which_outputs_have_rows_for_each_token() -> None:
    assert is_ragged("multivector")
    assert is_ragged("multivector.scale")
    assert not is_ragged("fde")
    assert of_tokens(("dense", "fde"))
    assert not of_tokens(("dense", "sparse"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "binary", "float16"])
def test_what_is_not_finite_is_found_in_every_type(dtype: str) -> None:
    rows = np.array([[1, 2, 3], [np.nan, 1, 1], [-1, 0, 1], [1, np.inf, 0]], np.float32)
    params = EncodeParams(dtype=dtype, normalize=False)  # type: ignore[arg-type]
    made = finished({"dense": Output(rows)}, [1, 2, 3], params, TASKS)
    assert made.invalid == {0, 2}
    assert {len(found) for found in made.rows.values()} == {3}


def test_half_precision_that_overflows_is_not_a_success() -> None:
    rows = np.array([[1e6, 1.0, 0.0]], np.float32)
    params = EncodeParams(dtype="float16", normalize=False)
    assert finished({"dense": Output(rows)}, [0], params, TASKS).invalid == {0}


def test_terms_stay_as_they_are() -> None:
    values = np.array([1, 2, np.nan, 4], np.float32)
    output = Output(values, np.array([2, 1, 1], np.int32), np.array([5, 6, 7, 8], np.int32))
    made = finished({"sparse": output}, [0, 1], EncodeParams(("sparse",)), TASKS)
    first = made.rows["sparse"][0]
    assert isinstance(first, Sparse)
    assert (first.indices.tolist(), first.values.tolist()) == ([5, 6], [1.0, 2.0])
    assert made.invalid == {1}

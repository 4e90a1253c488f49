from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.tasks.fde import fixed
from shoal.tasks.late import Cosine, MaxSim, TokenVectors, unit
from shoal.values import EncodeParams
from shoal.wire.outputs import Sparse

RNG = np.random.default_rng(11)
QUERY = RNG.normal(size=(4, 8)).astype(np.float32)
DOCUMENT = RNG.normal(size=(6, 8)).astype(np.float32)
KEEP = np.array([True, True, False, True, False, True])


def test_maxsim_equals_the_reference() -> None:
    import torch
    from sentence_transformers.util import maxsim

    def expected(document: NDArray[np.float32]) -> float:
        query = torch.tensor(unit(QUERY))[None]
        return float(maxsim(query, torch.tensor(unit(document))[None])[0, 0])

    query = [{"multivector": QUERY}]
    whole = MaxSim()([{"multivector": DOCUMENT}], query)["score"]
    assert float(whole) == pytest.approx(expected(DOCUMENT), rel=1e-5)  # type: ignore[arg-type]
    part = MaxSim(KEEP)([{"multivector": DOCUMENT}], query)["score"]
    assert float(part) == pytest.approx(expected(DOCUMENT[KEEP]), rel=1e-5)  # type: ignore[arg-type]


def test_a_document_without_tokens_is_like_nothing() -> None:
    nothing = MaxSim(np.zeros(6, bool))([{"multivector": DOCUMENT}], [{"multivector": QUERY}])
    assert nothing["score"] == 0.0


def test_cosine() -> None:
    score = Cosine()([{"dense": np.array([3.0, 4.0])}], [{"dense": np.array([2.0, 0.0])}])["score"]
    assert score == pytest.approx(0.6)


def made(outputs: tuple[str, ...], query: bool = False, **params: Any) -> dict[str, Any]:
    rows: dict[str, Any] = {
        "dense": np.array([3.0, 4.0, 12.0], np.float32),
        "sparse": Sparse(np.array([1, 5], np.int32), np.array([0.5, 2.0], np.float32)),
        "multivector": DOCUMENT,
    }
    finish = TokenVectors(EncodeParams(outputs, **params), True, KEEP, query)
    return finish([rows])


def test_vectors_of_tokens_have_length_1_and_some_tokens_have_none() -> None:
    vectors = made(("multivector",))["multivector"]
    np.testing.assert_allclose(vectors, unit(DOCUMENT[KEEP]), rtol=1e-6)
    plain = made(("multivector",), normalize=False)["multivector"]
    assert np.array_equal(plain, DOCUMENT[KEEP])


def test_whole_numbers_have_a_scale_each_token() -> None:
    answer = made(("multivector", "dense"), dtype="int8")
    assert answer["multivector"].dtype == "int8"
    assert answer["multivector.scale"].shape == (4,)
    assert answer["dense"].tolist() == [32, 42, 127]
    assert answer["dense.scale"] == pytest.approx(12 / 13 / 127)


def test_several_outputs_of_one_pass() -> None:
    answer = made(("fde", "sparse", "dense"), dimensions=2)
    assert list(answer) == ["fde", "sparse", "dense"]
    np.testing.assert_allclose(answer["fde"], fixed(unit(DOCUMENT[KEEP]), query=False))
    assert answer["dense"].tolist() == pytest.approx([0.6, 0.8])
    assert answer["sparse"].indices.tolist() == [1, 5]
    asked = made(("fde",), query=True)["fde"]
    np.testing.assert_allclose(asked, fixed(unit(DOCUMENT[KEEP]), query=True))

"""Fixed-dimensional encodings against the paper's own words, one vector and one part at a time."""

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.tasks import fde
from shoal.tasks.late import unit

Vectors = NDArray[np.float32]
DIM = 24


def some(count: int, seed: int) -> Vectors:
    return unit(np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32))


def slowly(vectors: Vectors, *, query: bool) -> Vectors:
    """The reference's loops, with the same planes and signs."""
    planes, signs = fde._random(DIM)
    planes = planes.reshape(DIM, fde.REPETITIONS, fde.PLANES)
    signs = signs.reshape(DIM, fde.REPETITIONS, fde.NARROWED)
    out = np.zeros((fde.REPETITIONS, fde.PARTS, fde.NARROWED))
    for repetition in range(fde.REPETITIONS):
        sides = vectors @ planes[:, repetition] > 0
        narrowed = vectors @ signs[:, repetition]
        for part in range(fde.PARTS):
            wanted = np.array([bool(part >> plane & 1) for plane in range(fde.PLANES)])
            away = (sides != wanted).sum(axis=1)
            inside = narrowed[away == 0]
            if query:
                out[repetition, part] = inside.sum(axis=0)
            elif len(inside):
                out[repetition, part] = inside.mean(axis=0)
            else:
                out[repetition, part] = narrowed[away.argmin()]
    whole: Vectors = (out.ravel() / np.sqrt(fde.REPETITIONS)).astype(np.float32)
    return whole


@pytest.mark.parametrize("query", [True, False])
@pytest.mark.parametrize("count", [1, 7, 60])
def test_encodings_equal_the_reference(count: int, query: bool) -> None:
    vectors = some(count, count)
    made = fde.fixed(vectors, query=query)
    assert made.shape == (fde.WIDTH,)
    assert made.dtype == "float32"
    np.testing.assert_allclose(made, slowly(vectors, query=query), atol=1e-5)


def test_no_vectors_are_like_nothing() -> None:
    assert not fde.fixed(some(0, 1), query=False).any()


def test_products_rank_as_late_interaction_does() -> None:
    """Documents that hold noisy copies of more and more of a query's tokens."""
    query, noise = some(16, 1), some(400, 2)
    documents = [
        unit(np.concatenate([query[:n] + 0.15 * noise[:n], noise[n * 20 + 20 : n * 20 + 60 - n]]))
        for n in range(0, 17, 4)
    ]
    late = [(query @ document.T).max(axis=1).sum() for document in documents]
    asked = fde.fixed(query, query=True)
    fast = [asked @ fde.fixed(document, query=False) for document in documents]
    assert np.argsort(fast).tolist() == np.argsort(late).tolist() == list(range(5))


def test_encodings_are_the_same_for_ever() -> None:
    """Whoever stored them compares them with new ones."""
    planes, signs = fde._random(4)
    assert planes[0, :3].tolist() == pytest.approx([0.49671414, -0.1382643, 0.64768857])
    assert np.abs(signs).sum() == 4 * fde.REPETITIONS
    assert np.flatnonzero(signs[0])[:3].tolist() == [2, 30, 32]

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.errors import InvalidRequest, ModelLoadFailed
from shoal.runtimes.base import OutOfMemory, Runtime
from shoal.runtimes.fake.hashing import pack_texts, seed_of, vectors_of
from shoal.runtimes.fake.runtime import FakeRuntime
from shoal.wire import socket as m
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.outputs import Output, Sparse, read_outputs

DIM = 16


def resident(**options: Any) -> Runtime:
    runtime = FakeRuntime()
    runtime.load(m.Load("m", "", "fake", {"dense": {"dim": DIM}}, options=options))
    return runtime


def tokens(*items: list[int]) -> m.Run:
    packed = np.array([token for item in items for token in item], np.int32)
    lengths = np.array([len(item) for item in items], np.int32)
    return m.Run(1, "m", ["dense"], to_wire(packed), to_wire(lengths))


def texts(*items: str) -> m.Run:
    return m.Run(1, "m", ["dense"], texts=list(items))


def dense(done: m.Done) -> NDArray[np.float32]:
    return from_wire(done.arrays["dense"])


def test_every_answer_belongs_to_its_item_whatever_the_batch() -> None:
    runtime = resident()
    items = [[i, i + 1, i] for i in range(50)] + [[], [7]]
    together = dense(runtime.run(tokens(*items)))
    alone = np.concatenate([dense(runtime.run(tokens(item))) for item in items])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_different_items_get_different_vectors() -> None:
    items = [[1, 2], [2, 1], [1, 2, 0], [0, 1, 2], [12], [1], [2], []]
    vectors = dense(resident().run(tokens(*items)))
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, 0)
    assert similar.max() < 0.95


def test_a_test_can_know_the_answer_beforehand() -> None:
    wanted = ["hello", "wörld", ""]
    vectors = dense(resident(inputs="text").run(texts(*wanted)))
    expected = vectors_of(*pack_texts(wanted), dim=DIM, seed=seed_of("m", "dense"))
    np.testing.assert_array_equal(vectors, expected)


def test_models_and_heads_differ() -> None:
    seeds = {seed_of(model, head) for model in "mn" for head in ("dense", "sparse")}
    vectors = [vectors_of(np.array([1]), np.array([1]), DIM, seed) for seed in seeds]
    assert len({vector.tobytes() for vector in vectors}) == 4


def test_an_empty_batch() -> None:
    assert dense(resident().run(tokens())).shape == (0, DIM)


def test_a_batch_takes_what_its_cost_says() -> None:
    done = resident(base_s=0.01, token_s=0.002, item_s=0.003, square_s=0.001).run(
        tokens([1, 2], [3])
    )
    assert done.seconds >= 0.01 + 3 * 0.002 + 2 * 0.003 + 5 * 0.001
    assert done.computed_tokens == 3


def test_faults_of_items() -> None:
    done = resident(nan=13, fail=14).run(tokens([1], [2, 13], [14, 3], []))
    assert list(np.flatnonzero(np.isnan(dense(done)).all(axis=1))) == [1]
    assert list(done.failed) == [2]
    done = resident(inputs="text", nan="unlucky", fail="bad").run(texts("so unlucky", "bad", "ok"))
    assert list(np.flatnonzero(np.isnan(dense(done)).all(axis=1))) == [0]
    assert list(done.failed) == [1]


def test_faults_of_batches() -> None:
    with pytest.raises(OutOfMemory, match="3 items and memory for 2"):
        resident(max_items=2).run(tokens([1], [2], [3]))
    with pytest.raises(OutOfMemory, match="3 tokens and memory for 2"):
        resident(max_tokens=2).run(tokens([1], [2, 3]))
    with pytest.raises(InvalidRequest, match="loaded for texts"):
        resident(inputs="text").run(tokens([1]))


def test_a_slow_batch() -> None:
    runtime = resident(slow=13, slow_s=0.05)
    assert runtime.run(tokens([1], [13])).seconds >= 0.05
    assert runtime.run(tokens([1], [12])).seconds < 0.05


def test_memory_is_really_held_and_given_back() -> None:
    size = 64_000_000
    runtime = FakeRuntime()
    before = runtime.stats().rss_bytes
    runtime.load(m.Load("m", "", "fake", {}, options={"bytes": size, "holds": True}))
    assert runtime.stats().rss_bytes - before > 0.9 * size
    runtime.unload("m")
    assert runtime.stats().rss_bytes - before < 0.1 * size


def test_a_leak_is_what_stays() -> None:
    runtime = FakeRuntime()
    options = {"bytes": 1_000_000, "leaks": 32_000_000, "device_bytes": 33_000_000}
    before = runtime.stats().rss_bytes
    runtime.load(m.Load("m", "", "fake", {}, options=options))
    runtime.unload("m")
    assert runtime.stats().rss_bytes - before > 30_000_000
    assert runtime.stats().models == {}
    runtime.load(m.Load("m", "", "fake", {}, options=options))  # just fits beside the leak
    runtime.unload("m")
    with pytest.raises(OutOfMemory):
        runtime.load(m.Load("m", "", "fake", {}, options=options))


def test_a_device_has_only_so_much() -> None:
    runtime = FakeRuntime()
    options = {"bytes": 40, "device_bytes": 100}
    for name in "ab":
        runtime.load(m.Load(name, "", "fake", {}, options=options))
    with pytest.raises(OutOfMemory, match="'c' needs 40 bytes and the device has 20"):
        runtime.load(m.Load("c", "", "fake", {}, options=options))
    runtime.load(m.Load("a", "", "fake", {}, options=options))  # replaced, not held twice
    runtime.unload("b")
    runtime.load(m.Load("c", "", "fake", {}, options=options))
    assert runtime.stats().models == {"a": 40, "c": 40}


def test_faults_of_loading() -> None:
    with pytest.raises(ModelLoadFailed, match="disk on fire"):
        resident(load_error="disk on fire")
    with pytest.raises(ModelLoadFailed, match="max_itms"):
        resident(max_itms=2)


# --- heads --------------------------------------------------------------------------------


def answered(head: dict[str, Any], batch: m.Run, **options: Any) -> Output:
    runtime = FakeRuntime()
    runtime.load(m.Load("m", "", "fake", {"out": head}, options=options))
    items = len(from_wire(batch.lengths)) if batch.lengths is not None else 0
    done = runtime.run(msgspec.structs.replace(batch, heads=["out"]))
    return read_outputs(done.arrays, done.lengths, done.indices, items)["out"]


@pytest.mark.parametrize(
    ("head", "width"),
    [
        ({"head": "colbert", "dim": 8}, 8),
        ({"head": "token-labels", "labels": ["O", "B", "I"]}, 3),
    ],
)
def test_a_row_for_every_token(head: dict[str, Any], width: int) -> None:
    rows = answered(head, tokens([5, 6, 5], [], [6])).rows()
    first, none, last = (np.asarray(row) for row in rows)
    assert (first.shape, none.shape, last.shape) == ((3, width), (0, width), (1, width))
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_array_equal(first[1], last[0])
    assert not np.allclose(first[0], first[1], atol=0.1)


@pytest.mark.parametrize("head", ["splade", "lexical"])
def test_a_weight_for_every_distinct_token(head: str) -> None:
    first, none, last = answered({"head": head}, tokens([7, 6, 7], [], [6])).rows()
    assert isinstance(first, Sparse) and isinstance(none, Sparse) and isinstance(last, Sparse)
    assert (first.indices.tolist(), none.indices.tolist(), last.indices.tolist()) == (
        [6, 7],
        [],
        [6],
    )
    assert first.values[0] == last.values[0]
    assert (first.values > 0).all()
    assert first.values[0] != first.values[1]


def test_one_score_a_pair() -> None:
    values = answered({"head": "cross-encoder"}, tokens([1, 2], [2, 1], [3])).values
    assert values.shape == (3, 1)
    assert len(np.unique(values)) == 3
    assert (np.abs(values) < 1).all()


@pytest.mark.parametrize("head", ["colbert", "splade", "cross-encoder"])
def test_nan_of_an_item_is_its_own(head: str) -> None:
    output = answered({"head": head}, tokens([5, 6, 5], [13, 1], [6]), nan=13)
    rows = [row.values if isinstance(row, Sparse) else row for row in output.rows()]
    assert [bool(np.isnan(row).any()) for row in rows] == [False, True, False]
    assert np.isnan(rows[1]).all()

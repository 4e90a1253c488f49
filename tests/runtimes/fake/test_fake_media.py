"""The fake runtime on files: vectors of their digests, cost by their bytes."""

from __future__ import annotations

import time

import numpy as np
import pytest

from shoal.errors import InvalidRequest
from shoal.runtimes.fake.hashing import pack_media, seed_of, vectors_of
from shoal.runtimes.fake.runtime import FakeRuntime
from shoal.wire.arrays import from_wire
from shoal.wire.socket import Load, Run


def loaded(**options: object) -> FakeRuntime:
    runtime = FakeRuntime()
    heads = {"dense": {"dim": 8}}
    runtime.load(Load("m", ".", "fake", heads, options={"inputs": "media", **options}))
    return runtime


def test_a_file_gets_the_vector_of_its_bytes_whatever_it_is_batched_with() -> None:
    runtime, large = loaded(), b"x" * 3_000_000
    files = [large, b"y", large[:-1]]
    done = runtime.run(Run(1, "m", ["dense"], media=files))
    found = from_wire(done.arrays["dense"])
    expected = vectors_of(*pack_media(files), 8, seed_of("m", "dense"))
    np.testing.assert_array_equal(found, expected)
    assert not np.allclose(found[0], found[2])
    alone = runtime.run(Run(2, "m", ["dense"], media=[b"y"]))
    np.testing.assert_array_equal(from_wire(alone.arrays["dense"])[0], found[1])


def test_texts_stand_beside_files_or_alone() -> None:
    runtime = loaded()
    both = runtime.run(Run(1, "m", ["dense"], texts=["", "a text"], media=[b"file", b""]))
    alone = runtime.run(Run(2, "m", ["dense"], texts=["a text"]))
    np.testing.assert_array_equal(
        from_wire(both.arrays["dense"])[1], from_wire(alone.arrays["dense"])[0]
    )


def test_each_byte_may_cost() -> None:
    runtime = loaded(byte_s=1e-7)
    start = time.perf_counter()
    runtime.run(Run(1, "m", ["dense"], media=[b"x" * 1_000_000]))
    assert time.perf_counter() - start >= 0.1


def test_a_batch_without_files_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="media and none came"):
        loaded().run(Run(1, "m", ["dense"]))

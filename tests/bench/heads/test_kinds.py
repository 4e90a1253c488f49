"""Answers become the same rows, whichever side gave them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from shoal.bench.heads.kinds import HeadApi, apart, entity_rows, score_rows, sparse_rows


def tensor(values: list[float] | list[int], dtype: str, *shape: int) -> dict[str, object]:
    data = np.array(values, dtype)
    return {"dtype": dtype, "shape": shape or data.shape, "data": data.tobytes()}


def body(*items: Mapping[str, object]) -> bytes:
    return msgspec.msgpack.encode({"items": items})


def test_vectors_of_texts_and_of_tokens() -> None:
    one = {"dense": tensor([1, 2], "float32")}
    assert HeadApi("m", "dense", 0).vectors(body(one, one)).tolist() == [[1, 2], [1, 2]]
    two = {"multivector": tensor([1, 2, 3, 4], "float32", 2, 2)}
    found = HeadApi("m", "multivector", 0).vectors(body(two, {"multivector": one["dense"]}))
    assert found.tolist() == [[1, 2], [3, 4], [1, 2]]


def test_terms_stand_at_their_places() -> None:
    terms = {"indices": tensor([3, 0], "int32"), "values": tensor([0.5, 1], "float32")}
    assert HeadApi("m", "sparse", 4).vectors(body({"sparse": terms})).tolist() == [[1, 0, 0, 0.5]]
    assert sparse_rows([([3, 0], [0.5, 1])], 4).tolist() == [[1, 0, 0, 0.5]]


def test_scores_and_entities() -> None:
    scores = HeadApi("m", "score", 0).vectors(body({"score": 0.5}, {"score": -2.0}))
    assert scores.tolist() == score_rows([0.5, -2.0]).tolist() == [[0.5], [-2]]
    found = {"start": 3, "end": 8, "label": "CITY", "text": "Leeds", "score": 0.9}
    told = HeadApi("m", "entities", 0).vectors(body({"entities": [found]}, {"entities": []}))
    assert told.tolist() == entity_rows([[(3, 8, "CITY")], []]).tolist()
    for other in ((3, 8, "NAME"), (3, 9, "CITY"), (2, 8, "CITY")):
        assert entity_rows([[other]])[0] != told[0]


def test_each_kind_asks_its_own_route() -> None:
    for kind, start in (
        ("dense", b"POST /v1/encode/m "),
        ("score", b"POST /v1/score/m "),
        ("entities", b"POST /v1/extract/m "),
    ):
        request = HeadApi("m", kind, 0).request(["a", "b"])  # type: ignore[arg-type]
        assert request.startswith(start)
        assert msgspec.msgpack.decode(request.partition(b"\r\n\r\n")[2])["items"] == ["a", "b"]


def test_how_far_apart_answers_are() -> None:
    one = np.array([[1, 2], [3, 4]], np.float32)
    assert apart("dense", one, one + np.float32(0.5)) == 0.5
    assert apart("dense", one, one[:1]) == apart("dense", None, one) == math.inf
    texts = entity_rows([[(0, 1, "A")], [], [(2, 3, "B")], []])
    others = entity_rows([[(0, 1, "A")], [], [(2, 3, "C")], []])
    assert apart("entities", texts, others) == 0.25

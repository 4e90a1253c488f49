"""Kinds of answers: how Shoal is asked for each, and how an answer becomes rows to compare.

Rows are float32 [n_rows, width]: one a text, for vectors of tokens one a token. Both sides make the
same ones, so that equal answers are equal arrays.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from shoal.bench.apis import Vectors
from shoal.bench.load import encode, post
from shoal.bench.quality.pieces import Place

Kind = Literal["dense", "sparse", "multivector", "score", "entities"]

#: What all texts are scored against.
QUERY = "which harbour has the largest market for paper?"
#: Of a hash: a float32 holds such a number exactly.
_HASH_BITS = 0xFFFFFF


class HeadApi:
    """Shoal's native routes in MessagePack; `width` is that of sparse rows."""

    def __init__(self, model: str, kind: Kind, width: int) -> None:
        self._model, self._kind, self._width = model, kind, width

    def request(self, texts: list[str]) -> bytes:
        """A whole HTTP request that asks for `texts`."""
        match self._kind:
            case "score":
                return self._asking("score", {"query": QUERY, "items": texts})
            case "entities":
                return self._asking("extract", {"items": texts})
            case _:
                return encode(self._model, texts)

    def _asking(self, task: str, body: dict[str, Any]) -> bytes:
        encoded = msgspec.msgpack.encode(body)
        return post(f"/v1/{task}/{self._model}", encoded, "application/msgpack")

    def vectors(self, body: bytes) -> Vectors:
        """The rows of an answer."""
        items = msgspec.msgpack.decode(body)["items"]
        match self._kind:
            case "score":
                return score_rows([item["score"] for item in items])
            case "entities":
                return entity_rows(map(_places, items))
            case "sparse":
                terms = [item["sparse"] for item in items]
                found = [(_read(one["indices"]), _read(one["values"])) for one in terms]
                return sparse_rows(found, self._width)
            case "dense" | "multivector":
                return np.vstack([_read(item[self._kind]) for item in items])


def _read(tensor: Mapping[str, Any]) -> Vectors:
    return np.frombuffer(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])


def _places(item: Mapping[str, Any]) -> list[Place]:
    return [(one["start"], one["end"], one["label"]) for one in item["entities"]]


def score_rows(scores: Iterable[float]) -> Vectors:
    """[n_texts, 1]."""
    return np.fromiter(scores, np.float32)[:, None]


def sparse_rows(terms: Sequence[tuple[Any, Any]], width: int) -> Vectors:
    """[n_texts, width]: the weights of all terms, from (indices, values) of each text."""
    rows = np.zeros((len(terms), width), np.float32)
    for row, (indices, values) in zip(rows, terms, strict=True):
        row[indices] = values
    return rows


def entity_rows(texts: Iterable[Iterable[Place]]) -> Vectors:
    """[n_texts, 1]: a number that stands for all starts, ends and labels of a text."""
    hashes = [zlib.crc32(msgspec.json.encode([*places])) & _HASH_BITS for places in texts]
    return np.array(hashes, np.float32)[:, None]


def apart(kind: Kind, ours: Vectors | None, theirs: Vectors | None) -> float:
    """The largest difference of two numbers; of entities, the share of texts that have others.

    Infinite where there are not as many rows.
    """
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return float("inf")
    if kind == "entities":
        return float((ours != theirs).mean())
    return float(np.abs(ours - theirs).max(initial=0))

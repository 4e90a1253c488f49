"""How each server is asked for vectors over HTTP, and how its answers are read.

Every server is asked in the most compact form that it documents; bodies are made before and read
after the time that counts.
"""

from __future__ import annotations

import base64
from typing import Any, Protocol

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from shoal.bench.load import encode, post

Vectors = NDArray[np.float32]


class Api(Protocol):
    """One server's way to embed texts."""

    def request(self, texts: list[str]) -> bytes:
        """A whole HTTP request that embeds `texts`."""

    def vectors(self, body: bytes) -> Vectors:
        """[n_texts, dim] from the body of its answer."""


class ShoalApi:
    """Shoal's native route in MessagePack."""

    def __init__(self, model: str) -> None:
        self._model = model

    def request(self, texts: list[str]) -> bytes:
        return encode(self._model, texts)

    def vectors(self, body: bytes) -> Vectors:
        items = msgspec.msgpack.decode(body)["items"]
        return np.stack([np.frombuffer(item["dense"]["data"], np.float32) for item in items])


class OpenAIApi:
    """OpenAI's embeddings route with base64 vectors: Shoal's and Infinity's."""

    def __init__(self, model: str, path: str) -> None:
        self._model, self._path = model, path

    def request(self, texts: list[str]) -> bytes:
        body = {"model": self._model, "input": texts, "encoding_format": "base64"}
        return post(self._path, orjson.dumps(body), "application/json")

    def vectors(self, body: bytes) -> Vectors:
        rows = sorted(orjson.loads(body)["data"], key=lambda row: int(row["index"]))
        return np.stack(
            [np.frombuffer(base64.b64decode(row["embedding"]), np.float32) for row in rows]
        )


class SieApi:
    """SIE's encode route in MessagePack, as its own client uses it."""

    def __init__(self, model: str) -> None:
        self._path = f"/v1/encode/{model}"

    def request(self, texts: list[str]) -> bytes:
        body = msgspec.msgpack.encode({"items": [{"text": text} for text in texts]})
        return post(self._path, body, "application/msgpack")

    def vectors(self, body: bytes) -> Vectors:
        items = msgspec.msgpack.decode(body)["items"]
        return np.stack([_numpy_array(item["dense"]["values"]) for item in items])


def _numpy_array(values: dict[Any, Any]) -> Vectors:
    """The msgpack-numpy form of an array, whose keys are strings or bytes."""
    fields = {key.decode() if isinstance(key, bytes) else key: v for key, v in values.items()}
    return np.frombuffer(fields["data"], np.dtype(fields["type"])).astype(np.float32)


def api_of(kind: str, model: str, path: str) -> Api:
    """The API called `kind`: ``openai`` (at `path`) or ``sie``."""
    return SieApi(model) if kind == "sie" else OpenAIApi(model, path)

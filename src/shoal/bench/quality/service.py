"""Shoal's side of the comparison: every question is asked through the API, by the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import numpy as np

from shoal.bench.failure import BenchFailed
from shoal.bench.quality.asked import (
    Answer,
    AskOurs,
    Find,
    Hear,
    Question,
    Rank,
    Read,
    Search,
)
from shoal.bench.quality.metrics import Scores, late
from shoal.client import Client
from shoal.errors import ShoalError
from shoal.wire.outputs import Sparse


def service(client: Client) -> AskOurs:
    """Answers of the gateway that `client` asks. They raise the error of an item that fails."""

    def ask(question: Question | Read) -> Answer:
        match question:
            case Search():
                return Answer(_alike(client, question).tolist())
            case Rank(model, queries, documents):
                pairs = zip(queries, documents, strict=True)
                return Answer([client.score(model, query, some).tolist() for query, some in pairs])
            case Find(model, texts):  # in one way, whatever the aggregation
                found = client.extract(model, texts)
                return Answer(entities=[one.entities or [] for one in found])
            case Hear(model, files) | Read(model, files):
                return Answer(texts=[one.text or "" for one in client.extract(model, files)])
        assert_never(question)

    return ask


def _alike(client: Client, search: Search) -> Scores:
    prompts = client.model(search.model).prompts
    sides = [("query", search.queries), ("document", search.documents)]
    vectors = [_vectors(client, search, name, prompts, texts) for name, texts in sides]
    if search.output == "multivector":
        return late(vectors[0], vectors[1])
    queries, documents = _matrices(vectors)
    return queries @ documents.T


def _vectors(
    client: Client, search: Search, name: str, prompts: list[str], texts: list[str]
) -> list[Any]:
    """A dense vector, a `Sparse` or an array of vectors for each text."""
    prompt = name if name in prompts else None
    encoded = client.encode_detailed(search.model, texts, outputs=[search.output], prompt=prompt)
    _without(encoded.errors, search.model)
    return list(encoded.vectors if search.output == "dense" else encoded.outputs[search.output])


def _without(errors: Mapping[int, ShoalError], model: str) -> None:
    for position, error in errors.items():
        raise BenchFailed(f"{model} did not answer item {position}: {error.message}")


def _matrices(sides: list[list[Any]]) -> list[Scores]:
    """Each side's vectors as [texts, width]; terms that nobody names are left out."""
    if not isinstance(sides[0][0], Sparse):
        return [np.stack(vectors) for vectors in sides]
    width = 1 + max(int(row.indices.max(initial=0)) for vectors in sides for row in vectors)
    matrices = [np.zeros((len(vectors), width), np.float32) for vectors in sides]
    for matrix, vectors in zip(matrices, sides, strict=True):
        for row, terms in zip(matrix, vectors, strict=True):
            row[terms.indices] = terms.values
    return matrices

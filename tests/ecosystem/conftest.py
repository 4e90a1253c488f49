"""One `shoal serve` with a key and two real models, and what Shoal's own client says of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.bench.serving import Serving
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from tests.ecosystem import snippets

# Read when the libraries are imported: nobody is told of the run.
os.environ |= {
    "DO_NOT_TRACK": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGSMITH_TRACING": "false",
}

ENCODER, RERANKER = "all-MiniLM-L6-v2", "ms-marco-MiniLM-L-12-v2"
WRITER, CHAT = "smollm2-135m-instruct", "chat"
#: The small model that writes, told of tools in the system message.
CARD = """\
name: {name}
source: {{dir: {folder}}}
family: llama
tasks: {{generate: {{tools: hermes}}}}
max_tokens: 2048
profiles: {{default: {{sequences: 4}}}}
"""
QUERY = "what lives in the sea?"
DOCUMENTS = ["The moon is far.", "Fish live in the sea.", ""]

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def serving() -> Iterator[Serving]:
    folder = fetch(Catalog.load().card(WRITER), cache_dir=None, offline=False)
    cards = {CHAT: CARD.format(name=CHAT, folder=folder)}
    with Serving([ENCODER, RERANKER, CHAT], cards=cards, api_key=snippets.KEY) as running:
        yield running


@pytest.fixture(scope="session")
def client(serving: Serving) -> Iterator[shoal.Client]:
    with shoal.Client(serving.url, api_key=snippets.KEY) as made:
        yield made


@pytest.fixture(scope="session")
def run(serving: Serving) -> Run:
    def run(heading: str, instead: dict[str, str] | None = None) -> dict[str, Any]:
        return snippets.run(heading, serving.url, instead)

    return run


@pytest.fixture(scope="session")
def chat(run: Run) -> Run:
    """Snippets that generate."""
    return lambda heading: run(heading, {WRITER: CHAT})


@pytest.fixture(scope="session")
def salty(client: shoal.Client) -> str:
    """What the snippets ask for, as Shoal's own client hears it."""
    question = [{"role": "user", "content": "Why is the sea salty?"}]
    return client.generate(CHAT, question, temperature=0, max_tokens=24)[0].text


@pytest.fixture(scope="session")
def vectors(client: shoal.Client) -> np.ndarray:
    """[2, dim]: of the texts that the snippets embed."""
    return client.encode(ENCODER, ["a fish", "a bird"])


@pytest.fixture(scope="session")
def best(client: shoal.Client) -> dict[str, float]:
    """The two best of the documents with their scores from 0 to 1, the best first."""
    logits = client.score(RERANKER, QUERY, DOCUMENTS)
    order = np.argsort(-logits)[:2]
    return {DOCUMENTS[i]: 1 / (1 + float(np.exp(-logits[i]))) for i in order}

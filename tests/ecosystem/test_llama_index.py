"""LlamaIndex' classes against real models."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import shoal
from tests.ecosystem.conftest import ENCODER, Run
from tests.ecosystem.snippets import MISSING

pytest.importorskip("llama_index.core", reason=MISSING)

EMBEDDERS = [
    "llama-index-embeddings-openai-like",
    "llama-index-embeddings-text-embeddings-inference",
]
RERANKERS = [
    "llama-index-postprocessor-tei-rerank",
    "llama-index-postprocessor-cohere-rerank",
]


@pytest.mark.parametrize("heading", EMBEDDERS)
def test_embedders(run: Run, client: shoal.Client, vectors: np.ndarray, heading: str) -> None:
    names = run(heading)
    np.testing.assert_allclose(names["vectors"], vectors, atol=1e-5)
    embedding = names["embedding"]
    np.testing.assert_allclose(embedding.get_query_embedding("a bird"), vectors[1], atol=1e-5)
    texts = ["word " * 2000, *(f"text {i}" for i in range(130))]
    wanted = client.encode(ENCODER, texts)
    np.testing.assert_allclose(embedding.get_text_embedding_batch(texts), wanted, atol=1e-5)
    got = asyncio.run(embedding.aget_text_embedding_batch(texts[:3]))
    np.testing.assert_allclose(got, wanted[:3], atol=1e-5)


def test_chat(chat: Run, salty: str) -> None:
    names = chat("llama-index-llms-openai-like")
    assert names["answer"].message.content == salty
    assert "".join(piece or "" for piece in names["pieces"]) == salty
    assert len(names["pieces"]) > 3


def test_calls(chat: Run) -> None:
    tools = pytest.importorskip("llama_index.core.tools")

    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    llm = chat("llama-index-llms-openai-like")["llm"]
    llm.max_tokens = 60
    answer = llm.chat_with_tools(
        [tools.FunctionTool.from_defaults(weather)],
        user_msg="Weather in Bonn?",
        tool_required=True,
    )
    calls = llm.get_tool_calls_from_response(answer)
    assert {call.tool_name for call in calls} == {"weather"}
    assert calls[0].tool_kwargs.keys() == {"city"}


@pytest.mark.parametrize("heading", RERANKERS)
def test_rerankers(run: Run, best: dict[str, float], heading: str) -> None:
    got = {node.node.text: node.score for node in run(heading)["best"]}
    assert list(got) == list(best)
    assert got == pytest.approx(best, abs=1e-5)

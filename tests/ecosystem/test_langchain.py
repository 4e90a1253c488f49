"""LangChain's classes against real models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openai import BadRequestError, NotFoundError
from pydantic import BaseModel, Field
from tokenizers import Tokenizer

import shoal
from shoal.bench.serving import Serving
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from tests.ecosystem.conftest import CHAT, ENCODER, Run
from tests.ecosystem.snippets import KEY, MISSING

langchain_openai = pytest.importorskip("langchain_openai", reason=MISSING)


def test_openai_s_class(run: Run, client: shoal.Client, vectors: np.ndarray) -> None:
    names = run("langchain-openai")
    np.testing.assert_allclose(names["vectors"], vectors, atol=1e-5)
    texts = ["", "\n", "word " * 2000]
    got = names["embeddings"].embed_documents(texts)
    np.testing.assert_allclose(got, client.encode(ENCODER, texts), atol=1e-5)


async def test_openai_s_class_awaited(run: Run, vectors: np.ndarray) -> None:
    got = await run("langchain-openai")["embeddings"].aembed_documents(["a fish", "a bird"])
    np.testing.assert_allclose(got, vectors, atol=1e-5)


def test_openai_s_chat(chat: Run, salty: str) -> None:
    names = chat("langchain-openai, chat")
    assert names["answer"].text == salty
    assert names["answer"].usage_metadata["output_tokens"] == 24
    assert "".join(names["pieces"]) == salty
    assert len(names["pieces"]) > 3


async def test_openai_s_chat_awaited(chat: Run, salty: str) -> None:
    model = chat("langchain-openai, chat")["chat"]
    assert (await model.ainvoke("Why is the sea salty?")).text == salty
    pieces = [piece async for piece in model.astream("Why is the sea salty?", stream_usage=True)]
    assert "".join(piece.text for piece in pieces) == salty
    assert sum((p.usage_metadata or {}).get("output_tokens", 0) for p in pieces) == 24


class Weather(BaseModel):
    """What the weather is like."""

    city: str = Field(max_length=20)
    rain: bool


def test_answers_of_a_schema_and_calls(serving: Serving) -> None:
    model = langchain_openai.ChatOpenAI(
        model=CHAT, base_url=f"{serving.url}/v1", api_key=KEY, temperature=0, max_tokens=60
    )
    for method in ("json_schema", "function_calling"):
        told = model.with_structured_output(Weather, method=method).invoke("It rains in Bonn.")
        assert isinstance(told, Weather)
    bound = model.bind_tools([Weather], tool_choice="Weather")
    (call,) = bound.invoke("It rains in Bonn.").tool_calls[:1]
    whole = None
    for piece in bound.stream("It rains in Bonn."):
        whole = piece if whole is None else whole + piece
    assert call["name"] == "Weather"
    assert call["args"].keys() >= {"city", "rain"}
    assert whole is not None
    assert whole.tool_calls[0]["args"] == call["args"]


@pytest.mark.parametrize("responses", [False, True])
def test_calls_come_in_chunks(serving: Serving, responses: bool) -> None:
    model = langchain_openai.ChatOpenAI(
        model=CHAT,
        base_url=f"{serving.url}/v1",
        api_key=KEY,
        temperature=0,
        max_tokens=60,
        use_responses_api=responses,
    ).bind_tools([Weather], tool_choice="Weather")
    (call,) = model.invoke("It rains in Bonn.").tool_calls
    pieces = list(model.stream("It rains in Bonn."))
    chunks = [chunk for piece in pieces for chunk in piece.tool_call_chunks]
    assert (chunks[0]["name"], {chunk["name"] for chunk in chunks[1:]}) == ("Weather", {None})
    assert len([chunk for chunk in chunks if chunk["args"]]) > 5, "as they are written"
    whole = sum(pieces[1:], pieces[0])
    assert whole.text == ""
    assert [(told["name"], told["args"]) for told in whole.tool_calls] == [
        (call["name"], call["args"])
    ]


def test_responses_in_place_of_chat(serving: Serving, salty: str) -> None:
    model = langchain_openai.ChatOpenAI(
        model=CHAT,
        base_url=f"{serving.url}/v1",
        api_key=KEY,
        temperature=0,
        max_tokens=24,
        use_responses_api=True,
    )
    assert model.invoke("Why is the sea salty?").text == salty
    assert "".join(piece.text for piece in model.stream("Why is the sea salty?")) == salty


def test_long_texts_are_split_and_averaged(run: Run, client: shoal.Client) -> None:
    folder = fetch(Catalog.load().card(ENCODER), cache_dir=None, offline=False)
    names = run(
        "langchain-openai, long texts", {"sentence-transformers/all-MiniLM-L6-v2": str(folder)}
    )
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = tokenizer.encode("a fish swims, " * 200, add_special_tokens=False).ids
    parts = [ids[i : i + 254] for i in range(0, len(ids), 254)]
    assert len(parts) > 2
    encoded = client.encode(ENCODER, [tokenizer.decode(part) for part in parts])
    mean = np.average(encoded, axis=0, weights=[len(part) for part in parts])
    np.testing.assert_allclose(names["vector"], mean / np.linalg.norm(mean), atol=1e-4)


def test_ids_of_openai_s_vocabulary_are_other_words(
    serving: Serving, client: shoal.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why the page says so: with the class's defaults the vectors are of other texts, or none."""
    core = pytest.importorskip("llama_index.core", reason=MISSING)
    vocabulary = Path(core.__file__).parent / "_static" / "tiktoken_cache"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(vocabulary))  # it comes with that package
    embeddings = langchain_openai.OpenAIEmbeddings(
        model=ENCODER, base_url=f"{serving.url}/v1", api_key=KEY, max_retries=0
    )
    similarity = embeddings.embed_query("a fish") @ client.encode(ENCODER, "a fish")
    assert similarity < 0.5
    with pytest.raises(BadRequestError, match="send ids of the model's own tokenizer, or the text"):
        embeddings.embed_query("Die Fische leben im Meer, überwiegend 🐟")


def test_errors_say_what_to_do(serving: Serving) -> None:
    embeddings = langchain_openai.OpenAIEmbeddings(
        model="all-MiniLM-L6-v3",
        base_url=f"{serving.url}/v1",
        api_key=KEY,
        check_embedding_ctx_length=False,
    )
    with pytest.raises(NotFoundError, match=f"did you mean '{ENCODER}'"):
        embeddings.embed_query("a fish")


def test_hugging_face_s_class(run: Run, vectors: np.ndarray) -> None:
    names = run("langchain-huggingface")
    np.testing.assert_allclose(names["vectors"], vectors, atol=1e-5)
    np.testing.assert_allclose(names["embeddings"].embed_query("a bird"), vectors[1], atol=1e-5)


def test_cohere_s_class(run: Run, best: dict[str, float]) -> None:
    names = run("langchain-cohere")
    got = {d.page_content: d.metadata["relevance_score"] for d in names["best"]}
    assert list(got) == list(best)
    assert got == pytest.approx(best, abs=1e-5)
    ranked = names["reranker"].rerank([{"text": text} for text in best], "sea", top_n=1)
    assert len(ranked) == 1

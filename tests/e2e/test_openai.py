"""The official OpenAI client, with its defaults, against the real model."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from tokenizers import Tokenizer

from shoal.bench.serving import Serving
from tests.e2e.likeness import same

MODEL = "all-MiniLM-L6-v2"


@pytest.fixture
def client(stack: Serving) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def vectors(client: openai.OpenAI, given: Any, **options: Any) -> np.ndarray:
    answer = client.embeddings.create(model=MODEL, input=given, **options)
    assert [d.index for d in answer.data] == list(range(len(answer.data)))
    return np.array([d.embedding for d in answer.data], np.float32)


def test_a_string_and_a_list_agree(client: openai.OpenAI) -> None:
    one = vectors(client, "a fish in the sea")
    many = vectors(client, ["a bird in the sky", "a fish in the sea"])
    assert one.shape == (1, 384)
    assert same(one[0], many[1])
    assert np.allclose(np.linalg.norm(many, axis=1), 1, atol=1e-5)


def test_base64_is_what_the_client_asks_for_and_equals_floats(
    client: openai.OpenAI, stack: Serving
) -> None:
    body = {"model": MODEL, "input": "fish", "encoding_format": "base64"}
    data = httpx.post(f"{stack.url}/v1/embeddings", json=body).json()["data"][0]["embedding"]
    raw = base64.b64decode(data)
    assert len(raw) == 4 * 384
    floats = vectors(client, "fish", encoding_format="float")[0]
    assert same(np.frombuffer(raw, "<f4"), floats)
    assert same(vectors(client, "fish")[0], floats)


def test_token_arrays_equal_their_text(client: openai.OpenAI, folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    text = "a fish in the sea"
    bare = tokenizer.encode(text, add_special_tokens=False).ids
    whole = tokenizer.encode(text).ids
    wanted = vectors(client, text)[0]
    assert same(vectors(client, bare)[0], wanted)
    both = vectors(client, [whole, bare[:2]])
    assert same(both[0], wanted)
    assert not same(both[1], wanted)


def test_dimensions_are_cut_then_normalised(client: openai.OpenAI) -> None:
    whole = vectors(client, "fish")[0]
    cut = vectors(client, "fish", dimensions=64)[0]
    assert cut.shape == (64,)
    assert same(cut, whole[:64])
    assert np.isclose(np.linalg.norm(cut), 1, atol=1e-5)


@pytest.mark.parametrize("dimensions", [0, -1, 385])
def test_dimensions_out_of_range_are_refused(client: openai.OpenAI, dimensions: int) -> None:
    with pytest.raises(openai.BadRequestError, match="384"):
        vectors(client, "fish", dimensions=dimensions)


def test_usage_counts_the_tokens_that_were_embedded(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model=MODEL, input=["fish", "word " * 1000])
    assert answer.usage.prompt_tokens == 3 + 256
    assert answer.usage.total_tokens == answer.usage.prompt_tokens


def test_models_are_listed_and_unknown_ones_name_the_nearest(client: openai.OpenAI) -> None:
    assert MODEL in [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.embeddings.create(model="all-MiniLM-L6-v3", input="fish")


def test_the_client_s_large_batch(client: openai.OpenAI) -> None:
    texts = [f"sentence number {i} about fish" for i in range(300)]
    got = vectors(client, texts)
    assert got.shape == (300, 384)
    assert same(got[137], vectors(client, texts[137])[0])

"""Hugging Face's official inference client, pointed at a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from huggingface_hub import AsyncInferenceClient
from huggingface_hub.errors import HfHubHTTPError

from shoal.values import EncodeParams, ExtractParams
from tests.gateway.conftest import Served
from tests.gateway.scripted import DIM, ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")


#: The client's own, deep inside.
files_warn = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest_asyncio.fixture(loop_scope="session")
async def client(gateway: Served) -> AsyncIterator[AsyncInferenceClient]:
    async with AsyncInferenceClient(token="any") as made:
        yield made


async def test_feature_extraction(
    client: AsyncInferenceClient, gateway: Served, worker: ScriptedWorker
) -> None:
    url = f"{gateway.url}/tei/tiny"
    assert (await client.feature_extraction("abc", model=url)).tolist() == [[5.0] * DIM]
    await client.feature_extraction(
        "a", model=url, normalize=False, prompt_name="query", truncate=False, dimensions=4
    )
    assert worker.units[1].params == EncodeParams(("dense",), 4, "float32", False, False, "query")


async def test_sentence_similarity(client: AsyncInferenceClient, gateway: Served) -> None:
    url = f"{gateway.url}/?model=tiny"
    assert await client.sentence_similarity("a", ["b", "abc"], model=url) == [72.0, 120.0]


async def test_text_classification(client: AsyncInferenceClient, gateway: Served) -> None:
    labels = await client.text_classification("a", model=f"{gateway.url}/tei/classifier")
    assert [(label.label, label.score) for label in labels] == [
        ("harassment", 0.75),
        ("calm", 0.375),
    ]
    best = await client.text_classification("a", model=f"{gateway.url}/tei/classifier", top_k=1)
    assert [label.label for label in best] == ["harassment"]


async def test_zero_shot_classification(
    client: AsyncInferenceClient, gateway: Served, worker: ScriptedWorker
) -> None:
    labels = await client.zero_shot_classification(
        "a", ["war", "peace"], multi_label=True, model=f"{gateway.url}/tei/zero-shot"
    )
    assert [(label.label, label.score) for label in labels] == [("war", 0.75), ("peace", 0.375)]
    assert worker.units[0].params == ExtractParams(("war", "peace"), None, True)
    with pytest.raises(HfHubHTTPError, match="the model's card has its template"):
        await client.zero_shot_classification(
            "a", ["war"], hypothesis_template="{}", model=f"{gateway.url}/tei/zero-shot"
        )


async def test_token_classification(client: AsyncInferenceClient, gateway: Served) -> None:
    (entity,) = await client.token_classification("In Bonn", model=f"{gateway.url}/tei/ner")
    assert (entity.entity_group, entity.word, entity.start, entity.end) == ("LOC", "Bonn", 3, 7)


@files_warn
async def test_automatic_speech_recognition(
    client: AsyncInferenceClient, gateway: Served, worker: ScriptedWorker
) -> None:
    sound = b"RIFF" + bytes(69_996)
    url = f"{gateway.url}/tei/transcriber"
    heard = await client.automatic_speech_recognition(sound, model=url)
    assert heard.text == " Hello world."
    (item,) = worker.units[0].items
    assert (item[:5], item[5:]) == (b"\xc6" + (70_000).to_bytes(4, "big"), sound)


@files_warn
async def test_a_file_for_a_model_of_texts(client: AsyncInferenceClient, gateway: Served) -> None:
    with pytest.raises(HfHubHTTPError, match="takes no images or sound"):
        await client.automatic_speech_recognition(b"RIFF", model=f"{gateway.url}/tei/ner")

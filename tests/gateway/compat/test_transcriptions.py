from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai.types.audio import TranslationVerbose

from shoal.broker.server import BrokerServer
from shoal.values import ExtractParams, Speech
from tests.gateway.conftest import Served, serving
from tests.gateway.scripted import ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOUND = ("a.wav", b"RIFF" + bytes(range(256)) * 300, "audio/wav")
PATH = "/v1/audio/transcriptions"


@pytest_asyncio.fixture(loop_scope="session")
async def client(gateway: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="any", max_retries=0
    ) as made:
        yield made


async def test_the_official_client(client: openai.AsyncOpenAI, worker: ScriptedWorker) -> None:
    answer = await client.audio.transcriptions.create(
        file=SOUND, model="transcriber", language="en", temperature=0.0
    )
    assert answer.text == "Hello world."
    (unit,) = worker.units
    assert (unit.task, unit.encoding) == ("extract", "msgpack")
    size = len(SOUND[1]).to_bytes(4, "big")
    assert unit.items == [b"\xc6" + size + SOUND[1]]
    assert unit.params == ExtractParams(speech=Speech("en"))


#: The client's own.
@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
async def test_what_is_said_of_a_sound_travels(
    client: openai.AsyncOpenAI, worker: ScriptedWorker
) -> None:
    await client.audio.transcriptions.create(
        file=SOUND, model="transcriber", language="de", prompt="Frau Müller", temperature=0.4
    )
    translated = await client.audio.translations.create(
        file=SOUND, model="transcriber", prompt="Ms Müller", response_format="verbose_json"
    )
    assert isinstance(translated, TranslationVerbose)
    assert (translated.text, translated.duration) == ("Hello world.", 3661.25)
    await client.audio.transcriptions.create(file=SOUND, model="transcriber")
    assert [unit.params for unit in worker.units] == [
        ExtractParams(speech=Speech("de", prompt="Frau Müller", temperature=0.4)),
        ExtractParams(speech=Speech(task="translate", prompt="Ms Müller")),
        ExtractParams(),
    ]


async def test_the_formats_of_the_official_client(client: openai.AsyncOpenAI) -> None:
    create = client.audio.transcriptions.create
    assert await create(file=SOUND, model="transcriber", response_format="text") == "Hello world.\n"
    verbose = await create(
        file=SOUND,
        model="transcriber",
        response_format="verbose_json",
        timestamp_granularities=["segment"],
    )
    assert (verbose.text, verbose.language, verbose.duration) == ("Hello world.", "en", 3661.25)
    assert verbose.segments is not None
    assert [(s.id, s.start, s.end, s.text) for s in verbose.segments] == [
        (0, 0.0, 1.5, " Hello"),
        (1, 1.5, 3661.25, " world."),
    ]
    srt = await create(file=SOUND, model="transcriber", response_format="srt")
    assert srt.startswith("1\n00:00:00,000 --> 00:00:01,500\nHello\n")
    vtt = await create(file=SOUND, model="transcriber", response_format="vtt")
    assert vtt.startswith("WEBVTT\n\n00:00:00.000")


async def test_the_only_model_that_transcribes(gateway: Served) -> None:
    response = await gateway.http.post(PATH, files={"file": SOUND})
    assert response.json() == {"text": "Hello world."}


@pytest.mark.parametrize(
    ("files", "data", "param", "says"),
    [
        ({}, {"model": "transcriber"}, "Content-Type", "multipart/form-data"),
        ({"other": SOUND}, {}, "file", "missing"),
        ({"file": (None, b"text")}, {}, "file", "not a file"),
        ({"file": SOUND}, {"model": "ner"}, "model", "cannot extract (transcript)"),
        ({"file": SOUND}, {"response_format": "xml"}, "response_format", "one of json, text"),
        ({"file": SOUND}, {"stream": "true"}, "stream", "as a whole"),
        ({"file": SOUND}, {"timestamp_granularities[]": "word"}, "timestamp_", "segments have"),
        ({"file": ("a.wav", b"bad")}, {}, "file", "file: 300 tokens"),
        ({"file": SOUND}, {"temperature": "1.5"}, "temperature", "from 0 to 1"),
        ({"file": SOUND}, {"temperature": "warm"}, "temperature", "float"),
    ],
)
async def test_what_is_wrong_is_named(
    gateway: Served, files: Any, data: Any, param: str, says: str
) -> None:
    response = await gateway.http.post(PATH, files=files, data=data)
    error = response.json()["error"]
    assert response.status_code == (415 if param == "Content-Type" else 400)
    assert error["param"].startswith(param)
    assert says in error["message"]


async def test_a_file_over_the_limit_is_named_as_the_form_names_it(broker: BrokerServer) -> None:
    async with serving(broker, max_media_bytes=8) as served:
        response = await served.http.post(PATH, files={"file": SOUND})
    assert response.status_code == 413
    error = response.json()["error"]
    assert error["param"] == "file"
    assert error["message"].startswith("file has ")

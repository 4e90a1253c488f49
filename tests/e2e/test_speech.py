"""One sound, the same transcript on every route and through official clients."""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator

import numpy as np
import openai
import pytest
from huggingface_hub import InferenceClient, close_session

import shoal
from shoal.bench.serving import Serving

MODEL = "whisper-tiny.en"
RATE, SECONDS = 16_000, 2


@pytest.fixture(scope="module")
def sound() -> bytes:
    """A tone, as WAV; what a model makes of it is its own affair."""
    tone = np.sin(2 * np.pi * 440 * np.arange(RATE * SECONDS) / RATE)
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(RATE)
        written.writeframes((tone * 8000).astype("<i2").tobytes())
    return file.getvalue()


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving([MODEL]) as running:
        yield running


def test_a_transcript_is_the_same_on_every_route(serving: Serving, sound: bytes) -> None:
    with shoal.Client(serving.url) as client:
        (heard,) = client.extract(MODEL, sound)
    assert heard.text is not None and heard.segments is not None
    assert all(0 <= s.start_s <= s.end_s <= SECONDS for s in heard.segments)
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="any", max_retries=0) as official:
        create = official.audio.transcriptions.create
        file = ("tone.wav", sound, "audio/wav")
        plain = create(file=file, model=MODEL)
        verbose = create(file=file, model=MODEL, response_format="verbose_json")
        srt = create(file=file, model=MODEL, response_format="srt")
    assert plain.text == verbose.text == heard.text.strip()
    assert verbose.language == "en"
    assert verbose.segments is not None
    assert [(s.start, s.end) for s in verbose.segments] == [
        (s.start_s, s.end_s) for s in heard.segments
    ]
    assert str(srt).count("-->") == len(heard.segments)
    url = f"{serving.url}/tei/{MODEL}"
    hub = InferenceClient(token="any").automatic_speech_recognition(sound, model=url)
    close_session()  # it is one of the whole process
    assert hub.text == heard.text


def test_what_is_no_sound_says_so(serving: Serving) -> None:
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="any", max_retries=0) as official:
        with pytest.raises(openai.BadRequestError) as caught:
            official.audio.transcriptions.create(file=("a.wav", b"no sound"), model=MODEL)
        assert caught.value.param == "file"

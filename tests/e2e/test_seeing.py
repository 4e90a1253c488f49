"""Images in conversations through the real `shoal serve` of a folder, against transformers."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import torch
from PIL import Image

import shoal
from shoal.bench.serving import Serving
from shoal.core.pulsing import PULSE_S
from tests.worker.media.drawn import picture, saved
from tests.worker.media.tiny import smolvlm

NEW = 12
PICTURES = [picture(61, 40), picture(40, 70, seed=9)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "seer"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return smolvlm(folder)


@pytest.fixture(scope="module")
def serving(folder: Path, model: Any) -> Iterator[Serving]:
    with Serving([str(folder)], ack_wait_s=2) as serving:
        yield serving


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def url_of(image: Image.Image) -> str:
    return f"data:image/png;base64,{base64.b64encode(saved(image, 'PNG')).decode()}"


def asked(*said: str | Image.Image) -> list[Any]:
    parts = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": url_of(part)}}
        for part in said
    ]
    return [{"role": "user", "content": parts}]


def expected(model: Any, *said: str | Image.Image, new: int = NEW) -> tuple[str, int]:
    """What the reference says, and the tokens of its prompt."""
    parts = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}
        for part in said
    ]
    told = [{"role": "user", "content": parts}]
    prompt = model.processor.apply_chat_template(told, add_generation_prompt=True, tokenize=False)
    images = [part for part in said if not isinstance(part, str)]
    given = dict(model.processor(text=prompt, images=images or None, return_tensors="pt"))
    with torch.inference_mode():
        whole = model.generate(
            **given, max_new_tokens=new, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    count = given["input_ids"].shape[1]
    text = model.processor.tokenizer.decode(whole[0, count:], skip_special_tokens=True)
    return str(text), count


SAID: dict[str, tuple[str | Image.Image, ...]] = {
    "one": (PICTURES[0], "what is it?"),
    "two": ("this ", PICTURES[1], " or ", PICTURES[0], "?"),
    "none": ("hi",),
}


@pytest.mark.parametrize("name", SAID)
def test_an_answer_is_that_of_the_reference(client: openai.OpenAI, model: Any, name: str) -> None:
    text, tokens = expected(model, *SAID[name])
    answer = client.chat.completions.create(
        model="seer", messages=asked(*SAID[name]), temperature=0, max_tokens=NEW
    )
    assert answer.choices[0].message.content == text
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (tokens, NEW)


def test_streams_several_texts_and_responses(client: openai.OpenAI, model: Any) -> None:
    said = SAID["one"]
    text, tokens = expected(model, *said)
    options: Any = {"model": "seer", "messages": asked(*said), "temperature": 0, "max_tokens": NEW}
    told = {0: "", 1: ""}
    stream = client.chat.completions.create(
        **options, n=2, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        for choice in chunk.choices:
            told[choice.index] += choice.delta.content or ""
        if chunk.usage is not None:
            assert chunk.usage.prompt_tokens == tokens
    assert told == {0: text, 1: text}
    parts: Any = [
        {"type": "input_image", "image_url": url_of(PICTURES[0])},
        {"type": "input_text", "text": "what is it?"},
    ]
    response = client.responses.create(
        model="seer",
        input=[{"role": "user", "content": parts}],
        temperature=0,
        max_output_tokens=NEW,
    )
    assert response.output_text == text
    assert response.usage is not None
    assert response.usage.input_tokens == tokens


def test_a_large_picture_goes_by_the_payload_store(client: openai.OpenAI, model: Any) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (900, 900, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    assert len(url_of(image)) > 3 << 20
    text, _ = expected(model, image)
    answer = client.chat.completions.create(
        model="seer", messages=asked(image), temperature=0, max_tokens=NEW
    )
    assert answer.choices[0].message.content == text


def test_our_client_sends_the_bytes_of_files(serving: Serving, model: Any) -> None:
    parts = [
        {"type": "image", "image": saved(PICTURES[0], "PNG")},
        {"type": "text", "text": "what is it?"},
    ]
    with shoal.Client(serving.url) as client:
        (answer,) = client.generate(
            "seer", [{"role": "user", "content": parts}], temperature=0, max_tokens=NEW
        )
    text, tokens = expected(model, *SAID["one"])
    assert (answer.text, answer.prompt_tokens) == (text, tokens)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://example.org/a.png", "images come with the request, as data: URLs"),
        ("data:image/png;base64,AAAA", r"messages\[0\].content\[0\]: this item is no image"),
        ("data:image/png;base64,%%", r"content\[0\].image_url holds invalid base64"),
    ],
)
def test_what_is_no_image_is_the_callers_fault(
    client: openai.OpenAI, model: Any, url: str, says: str
) -> None:
    messages: Any = [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    ]
    with pytest.raises(openai.BadRequestError, match=says):
        client.chat.completions.create(model="seer", messages=messages, max_tokens=NEW)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("large", [False, True])
def test_a_stream_about_a_picture_outlives_what_writes_it(
    client: openai.OpenAI, model: Any, serving: Serving, large: bool
) -> None:
    """Its runtime dies, then its worker; a large picture lies in the payload store meanwhile."""
    noise = np.random.default_rng(4).integers(0, 256, (900, 900, 3), dtype=np.uint8)
    image = Image.fromarray(noise) if large else PICTURES[0]
    new = 400
    text, _ = expected(model, image, "what is it?", new=new)
    for role in ("runtime", "worker"):
        stream = client.chat.completions.create(
            model="seer",
            messages=asked(image, "what is it?"),
            temperature=0,
            max_tokens=new,
            stream=True,
        )
        told = ""
        for chunk in stream:
            if not told and chunk.choices and chunk.choices[0].delta.content:
                kill_in_the_middle(serving, role)
            told += "".join(choice.delta.content or "" for choice in chunk.choices)
        assert told == text


def kill_in_the_middle(serving: Serving, role: str) -> None:
    """Its runtime writes nothing meanwhile, and the worker says that it is not over."""
    roles = serving.roles()
    (runtime,) = roles["runtime"]
    os.kill(runtime, signal.SIGSTOP)
    time.sleep(3 * PULSE_S)  # so old is what a worker tells at most
    assert serving.worker_counters()["shoal_worker_units_held"] == 1
    os.kill(roles[role][0], signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(runtime, signal.SIGCONT)

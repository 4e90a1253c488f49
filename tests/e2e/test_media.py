"""Files through the real `shoal serve`: tiny models of images and of sound, against transformers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
import torch
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from shoal.bench.serving import Serving
from tests.runtimes.torch import media
from tests.worker.media.drawn import picture, saved
from tests.worker.media.test_sound import saved as sound_file
from tests.worker.media.tiny import clip, whisper

CARDS = """\
name: {family}
source: {{dir: {family}}}
family: {family}
inputs: [{inputs}]
tasks: {tasks}
max_tokens: {max_tokens}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cards")
    for family, inputs, tasks, max_tokens in (
        (
            "clip",
            "text, image",
            "{encode: {dense: {dim: 20, normalize: false}}, extract: {head: image-text, template: '{label}'}}",
            12,
        ),
        ("whisper", "audio", "{extract: {head: transcript}}", 20),
    ):
        (folder / family).mkdir()
        card = CARDS.format(family=family, inputs=inputs, tasks=tasks, max_tokens=max_tokens)
        (folder / f"{family}.yaml").write_text(card)
    return folder


@pytest.fixture(scope="module")
def towers(folder: Path) -> Any:
    return clip(folder / "clip")


@pytest.fixture(scope="module")
def serving(folder: Path, towers: Any) -> Iterator[Serving]:
    whisper(folder / "whisper")
    with Serving(["clip", "whisper", "--catalog", str(folder)]) as serving:
        yield serving


def asked(serving: Serving, path: str, body: Any) -> list[dict[str, Any]]:
    headers = {"content-type": "application/msgpack", "accept": "application/msgpack"}
    answer = httpx.post(
        f"{serving.url}{path}", content=msgspec.msgpack.encode(body), headers=headers, timeout=60
    )
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = msgspec.msgpack.decode(answer.content)["items"]
    return items


def features(towers: Any, image: Any) -> Any:
    processor = CLIPImageProcessorPil(
        size=16, crop_size=16, image_mean=media.MEAN, image_std=media.STD
    )
    with torch.inference_mode():
        pixels = processor([image], return_tensors="pt").pixel_values
        return towers.get_image_features(pixels).pooler_output[0].numpy()


def test_images_and_texts_of_one_request(serving: Serving, towers: Any) -> None:
    image = picture(300, 200)
    png = saved(image, "PNG")
    body = {"items": [png, "w7 w9", {"image": png}, png[:500], "w11"]}
    items = asked(serving, "/v1/encode/clip", body)
    for place in (0, 2):
        dense = np.frombuffer(items[place]["dense"]["data"], "<f4")
        np.testing.assert_allclose(dense, features(towers, image), atol=2e-5)
    assert "damaged or cut off" in items[3]["error"]["message"]
    assert [place for place, item in enumerate(items) if "error" in item] == [3]


def test_json_carries_the_same_in_base64(serving: Serving, towers: Any) -> None:
    image = picture(64, 64)
    data = base64.b64encode(saved(image, "PNG")).decode()
    body = {"items": [{"image_url": f"data:image/png;base64,{data}"}]}
    answer = httpx.post(f"{serving.url}/v1/encode/clip", json=body, timeout=60).json()
    np.testing.assert_allclose(
        answer["items"][0]["dense"], features(towers, image), atol=2e-5, rtol=1e-4
    )


def test_labels_of_ones_own(serving: Serving) -> None:
    body = {"items": [saved(picture(), "PNG")], "params": {"labels": ["w7", "w9", "w30"]}}
    (item,) = asked(serving, "/v1/extract/clip", body)
    scores = [label["score"] for label in item["labels"]]
    assert {label["label"] for label in item["labels"]} == {"w7", "w9", "w30"}
    assert sum(scores) == pytest.approx(1, abs=1e-5)
    assert scores == sorted(scores, reverse=True)


def test_sound_is_written_down(serving: Serving) -> None:
    noise = np.random.default_rng(5).normal(size=1600).astype(np.float32) / 9
    sound = sound_file(noise, 1600, "FLAC")
    first, wrong = asked(serving, "/v1/extract/whisper", {"items": [sound, b"no sound"]})
    assert first["text"].split()
    assert first["language"] in ("de", "en")
    assert first["segments"][-1]["end_s"] <= 1.0
    assert "no sound that can be read" in wrong["error"]["message"]

"""Large items through real processes: texts of megabytes, images, crashes, a store in S3."""

from __future__ import annotations

import base64
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

import shoal
from shoal.bench.serving import Serving
from shoal.errors import InvalidItem
from shoal.runtimes.fake.hashing import pack_media, pack_texts, seed_of, vectors_of
from tests.broker.s3 import s3_server
from tests.e2e.likeness import same

TEXT_MODEL = "all-MiniLM-L6-v2"
DIM = 16
CARD = """
name: {name}
source: {{dir: .}}
family: fake
inputs: [{inputs}]
tasks: {{encode: {{dense: {{dim: {dim}}}}}}}
max_tokens: 8192
profiles:
  default: {{runtime: fake, options: {options}, cost: {{base_s: 0.001, token_s: 0.0}}}}
"""
IMAGE = os.urandom(3_000_000)
#: Short, so that what a crash leaves behind is swept within seconds.
SWEPT = ["--max-timeout-s", "2", "--timeout-s", "2", "--payload-sweep-s", "1", "--ack-wait-s", "1"]
MSGPACK = {"content-type": "application/msgpack", "accept": "application/msgpack"}


def until(condition: Callable[[], Any], what: str, within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cards")
    for name, inputs, dim, options in (
        ("images", "image", DIM, "{inputs: media}"),
        ("both", "text, image", DIM, "{inputs: media}"),
        ("slow-images", "image", DIM, "{inputs: media, base_s: 1.0}"),
        ("wide", "text", 5_000_000, "{inputs: text}"),
    ):
        card = CARD.format(name=name, inputs=inputs, dim=dim, options=options)
        (folder / f"{name}.yaml").write_text(card)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("payloads")


@pytest.fixture(scope="module")
def serving(cards: Path, store: Path) -> Iterator[Serving]:
    arguments = [TEXT_MODEL, "images", "both", "wide", "--catalog", str(cards)]
    with Serving([*arguments, "--payload-url", store.as_uri()]) as running:
        yield running


@pytest.fixture
def client(serving: Serving) -> Iterator[shoal.Client]:
    with shoal.Client(serving.url) as made:
        yield made


def image_vectors(model: str, images: list[bytes]) -> NDArray[np.float32]:
    return vectors_of(*pack_media(images), DIM, seed_of(model, "dense"))


def emptied(store: Path) -> None:
    until(lambda: not list(store.iterdir()), "nothing is left in the payload store")


# --- images -----------------------------------------------------------------------------------


def test_large_and_small_images_of_one_request(client: shoal.Client, store: Path) -> None:
    images = [IMAGE, b"small", IMAGE[::-1], IMAGE[:2_000_000]]
    vectors = client.encode("images", images)
    np.testing.assert_allclose(vectors, image_vectors("images", images), atol=1e-6)
    emptied(store)


def test_json_brings_the_same_images_in_base64(serving: Serving, store: Path) -> None:
    text = base64.b64encode(IMAGE).decode()
    items = [{"image": text}, {"image_url": f"data:image/png;base64,{text}"}]
    answer = httpx.post(f"{serving.url}/v1/encode/images", json={"items": items}, timeout=60)
    assert answer.status_code == 200, answer.text
    found = np.array([item["dense"] for item in answer.json()["items"]])
    np.testing.assert_allclose(found, image_vectors("images", [IMAGE, IMAGE]), atol=1e-6)
    emptied(store)


def test_a_model_of_both_takes_texts_and_images_together(client: shoal.Client) -> None:
    mixed: list[str | bytes] = ["a text", IMAGE, "", b"image"]
    vectors = client.encode("both", mixed)
    files = [b"a text", IMAGE, b"", b"image"]
    np.testing.assert_allclose(vectors, image_vectors("both", files), atol=1e-6)


def test_what_a_model_does_not_take_is_refused_by_name(
    serving: Serving, client: shoal.Client
) -> None:
    mixed: list[str | bytes] = ["a", b"image"]
    with pytest.raises(InvalidItem, match=r"items\[1\].*takes no images or audio"):
        client.encode(TEXT_MODEL, mixed)
    with pytest.raises(InvalidItem, match="this model takes image, no text"):
        client.encode("images", "a text")
    body = {"items": [{"image": base64.b64encode(b"x").decode()}]}
    answer = httpx.post(f"{serving.url}/v1/encode/{TEXT_MODEL}", json=body)
    assert answer.status_code == 400
    assert "takes text, no images" in answer.json()["error"]["message"]
    audio = msgspec.msgpack.encode({"items": [{"audio": b"x"}]})
    answer = httpx.post(f"{serving.url}/v1/encode/images", content=audio, headers=MSGPACK)
    assert "takes image, no audio" in msgspec.msgpack.decode(answer.content)["error"]["message"]


# --- texts ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_text() -> str:
    return "the quick brown fox jumps over the lazy dog and so on " * 100_000  # 5.4 MB


def test_a_text_of_five_megabytes_is_cut_like_any_other(
    client: shoal.Client, store: Path, long_text: str
) -> None:
    whole = client.encode_detailed(TEXT_MODEL, [long_text, "hi"])
    assert list(whole.truncated) == [True, False]
    assert whole.tokens[0] == 256
    assert same(whole.vectors[0], client.encode(TEXT_MODEL, long_text[:10_000]))
    assert same(whole.vectors[1], client.encode(TEXT_MODEL, "hi"))
    emptied(store)


def test_without_truncation_it_is_refused_by_its_tokens(
    client: shoal.Client, store: Path, long_text: str
) -> None:
    with pytest.raises(shoal.errors.TooManyTokens, match="more than 256 tokens"):
        client.encode(TEXT_MODEL, long_text, truncate=False)
    emptied(store)


def test_hi_beside_texts_of_five_megabytes_waits_for_milliseconds(
    serving: Serving, long_text: str
) -> None:
    """Preparing the large ones holds nobody up: the server says how long each was prepared."""
    large = msgspec.msgpack.encode({"items": [long_text]})
    url, stop = f"{serving.url}/v1/encode/{TEXT_MODEL}", threading.Event()

    def send_large() -> None:
        while not stop.is_set():
            answer = httpx.post(url, content=large, headers=MSGPACK, timeout=60)
            assert answer.status_code == 200

    prepared_ms = []
    with ThreadPoolExecutor(2) as beside:
        sending = [beside.submit(send_large) for _ in range(2)]
        for _ in range(100):
            timing = httpx.post(url, json={"items": ["hi"]}, timeout=60).headers["server-timing"]
            prepared_ms.append(float(timing.partition("prepare;dur=")[2].partition(",")[0]))
        stop.set()
        for future in sending:
            future.result()
    assert np.median(prepared_ms) < 10, "a whole text of 5.4 MB takes seconds to tokenize"


# --- replies ----------------------------------------------------------------------------------


def test_a_reply_of_twenty_megabytes_comes_in_pieces(client: shoal.Client) -> None:
    vector = client.encode("wide", "fish")
    tokens, lengths = pack_texts(["fish"])
    (expected,) = vectors_of(tokens, lengths, 5_000_000, seed_of("wide", "dense"))
    np.testing.assert_allclose(vector, expected, atol=1e-7)


# --- when things go wrong ---------------------------------------------------------------------


def test_a_caller_that_leaves_leaves_nothing_behind(
    serving: Serving, cards: Path, store: Path
) -> None:
    body = msgspec.msgpack.encode({"items": [IMAGE]})
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{serving.url}/v1/encode/slow-images", content=body, headers=MSGPACK, timeout=0.5
        )
    emptied(store)


def test_a_store_that_refuses_fails_the_request_and_not_the_small_ones(
    cards: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    url = (tmp_path / "file").as_uri()
    with Serving(["images", "--catalog", str(cards), "--payload-url", url]) as running:
        body = msgspec.msgpack.encode({"items": [IMAGE]})
        answer = httpx.post(f"{running.url}/v1/encode/images", content=body, headers=MSGPACK)
        error = msgspec.msgpack.decode(answer.content)["error"]
        assert (answer.status_code, error["code"], error["retryable"]) == (503, "unavailable", True)
        # The gateway says so, or the worker that asked for it sooner.
        assert re.search("does not (take|give) a payload", error["message"])
        with shoal.Client(running.url) as client:
            np.testing.assert_allclose(
                client.encode("images", b"small"), image_vectors("images", [b"small"])[0], atol=1e-6
            )


def back(running: Serving, role: str) -> bool:
    return bool(running.roles()[role]) and running.ready()


@pytest.mark.timeout(600)
def test_payloads_of_killed_gateways_and_workers_are_gone_afterwards(
    cards: Path, tmp_path: Path
) -> None:
    """Requests wait in a slow model; then what serves them is killed without a word."""
    store = tmp_path / "payloads"
    arguments = ["slow-images", "--catalog", str(cards), "--payload-url", store.as_uri(), *SWEPT]
    with Serving(arguments) as running, ThreadPoolExecutor(8) as callers:
        body = msgspec.msgpack.encode({"items": [IMAGE]})
        url = f"{running.url}/v1/encode/slow-images"

        def send() -> int:
            try:
                return httpx.post(url, content=body, headers=MSGPACK, timeout=30).status_code
            except httpx.HTTPError:
                return 0

        for role in ("worker", "gateway"):
            answers = [callers.submit(send) for _ in range(4)]
            until(lambda: any(store.iterdir()), "a payload is in the store")
            os.kill(running.roles()[role][0], signal.SIGKILL)
            for answer in answers:
                assert answer.result() in (0, 200, 503, 504)
            running.wait_until(partial(back, running, role), 120)
            emptied(store)
        assert send() == 200


@pytest.mark.timeout(180)
def test_the_store_may_be_a_bucket(cards: Path) -> None:
    with s3_server() as s3:
        bucket = s3.new_bucket()
        arguments = ["images", "--catalog", str(cards), "--payload-url", f"{bucket}/in-flight"]
        with Serving(arguments, s3.environment) as running, shoal.Client(running.url) as client:
            images = [IMAGE, IMAGE[::-1], b"small"]
            vectors = client.encode("images", images)
            np.testing.assert_allclose(vectors, image_vectors("images", images), atol=1e-6)
            until(lambda: s3.objects(bucket) == 0, "nothing is left in the bucket")

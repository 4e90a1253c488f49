"""Both clients and the command against a real `shoal serve`, a killed worker included."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import shoal
from shoal.client import Limits
from shoal.errors import InvalidItem, UnknownModel
from tests.cli.serving import Serving, serve, until

TEXTS = [f"text {n}" for n in range(300)]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serve(tmp_path_factory.mktemp("serve"), "--ack-wait-s", "1") as running:
        running.up()
        yield running
        running.interrupt()


@pytest.fixture
def client(serving: Serving) -> Iterator[shoal.Client]:
    with shoal.Client(serving.up()["url"]) as made:
        yield made


def test_the_gateway_describes_itself(client: shoal.Client) -> None:
    assert client.health() and client.ready()
    assert "fake" in [model.id for model in client.models()]
    assert client.model("fake").dims == {"encode": 8}
    until(lambda: client.model("fake").lanes == 1, "a worker says that it holds it")
    fake = client.model("fake")
    assert fake.state == "resident"
    assert fake.bytes > 0
    with pytest.raises(UnknownModel, match="'fake'"):
        client.encode("fakr", "a")


def test_many_texts_give_the_vectors_of_each(client: shoal.Client) -> None:
    vectors = client.encode("fake", TEXTS)
    assert vectors.shape == (300, 8)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[137], client.encode("fake", TEXTS[137]), atol=1e-6)
    half = client.encode("fake", TEXTS[:3], dtype="float16", dimensions=4)
    assert half.shape == (3, 4)
    assert half.dtype == np.float16


def test_the_asyncio_client_gives_the_same(serving: Serving, client: shoal.Client) -> None:
    async def encode() -> NDArray[Any]:
        async with shoal.AsyncClient(serving.up()["url"]) as aio:
            return await aio.encode("fake", TEXTS)

    np.testing.assert_allclose(asyncio.run(encode()), client.encode("fake", TEXTS), atol=1e-6)


def test_an_item_that_fails_is_named(client: shoal.Client) -> None:
    texts: Any = ["a", [101, 102], "b"]  # the fake model takes texts only
    encoded = client.encode_detailed("fake", texts)
    assert encoded.positions.tolist() == [0, 2]
    assert list(encoded.errors) == [1]
    with pytest.raises(InvalidItem, match=r"items\[1\]"):
        client.encode("fake", texts)


def test_a_worker_killed_under_way_costs_no_answer(serving: Serving, client: shoal.Client) -> None:
    answered = threading.Event()
    vectors: list[NDArray[Any]] = []

    def encode() -> None:
        with shoal.Client(serving.up()["url"], limits=Limits(request_items=5)) as many:
            vectors.append(many.encode("fake", TEXTS * 5, progress=lambda *_: answered.set()))

    thread = threading.Thread(target=encode)
    thread.start()
    assert answered.wait(30)
    serving.signal("shoal worker", signal.SIGKILL)
    thread.join(60)
    np.testing.assert_allclose(vectors[0], np.tile(client.encode("fake", TEXTS), (5, 1)), atol=1e-6)


def test_the_command(serving: Serving) -> None:
    flags = ["a fish", "a bird", "--json", "--url", serving.up()["url"]]
    lines = [json.loads(line) for line in serving.shoal("encode", "fake", *flags).splitlines()]
    assert [(line["index"], len(line["vector"])) for line in lines] == [(0, 8), (1, 8)]
    with pytest.raises(subprocess.CalledProcessError) as caught:
        serving.shoal("encode", "fakr", *flags)
    assert (caught.value.returncode, caught.value.stdout) == (1, b"")
    assert caught.value.stderr.startswith(b"error: no model is called 'fakr'")

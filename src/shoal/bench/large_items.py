"""Texts of megabytes and bytes that stand for images, and what the right answer to each is."""

from __future__ import annotations

import random

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.bench import cards
from shoal.bench.load import Generator, Load, Target, encode
from shoal.bench.texts import text
from shoal.runtimes.fake.hashing import pack_media, seed_of, vectors_of

TEXT_MODEL = "all-MiniLM-L6-v2"
IMAGE_MODEL = "fake-images"
_DIM = 64
#: The start of a long text that is surely more than the model reads.
_READ_CHARACTERS = 20_000


def card(item_s: float) -> str:
    """The card of `IMAGE_MODEL`; an image takes so long on the device."""
    return cards.fake(
        IMAGE_MODEL,
        {"inputs": "media", "item_s": item_s},
        (0.001, 0.0, item_s),
        dim=_DIM,
        inputs=["image"],
        max_tokens=8192,
    )


class Items:
    """What is sent, each in a request of its own; all different from the first byte on."""

    def __init__(self, images: int, image_bytes: int, texts: int, text_bytes: int) -> None:
        rest = random.Random(1).randbytes(image_bytes - 8)
        self._images = [number.to_bytes(8, "big") + rest for number in range(images)]
        rng = random.Random(2)
        paragraph = text(rng, 2000)
        more = text_bytes // len(paragraph) + 1
        self._texts = [
            f"text {n}: {text(rng, 500)} {paragraph * more}"[:text_bytes] for n in range(texts)
        ]
        self._expected: list[NDArray[np.float32]] = []

    def load(self, target: Target) -> Load:
        """All of them at once."""
        requests = [encode(TEXT_MODEL, [item]) for item in self._texts]
        requests += [encode(IMAGE_MODEL, [item]) for item in self._images]
        return Load([target], requests, len(requests), keep=True)

    def learn(self, target: Target, load: Generator) -> None:
        """What the model answers to the part of each text that it reads is what it must answer."""
        requests = [encode(TEXT_MODEL, [item[:_READ_CHARACTERS]]) for item in self._texts]
        outcome = load.ask(Load([target], requests, 1, keep=True))
        seed = seed_of(IMAGE_MODEL, "dense")
        images = vectors_of(*pack_media(self._images), _DIM, seed)
        self._expected = [*map(vector, outcome.bodies), *images]

    def wrong(self, bodies: list[bytes]) -> int:
        """How many answers are not the vector of their own item."""
        found = map(vector, bodies)
        return sum(
            not (len(f) == len(e) and np.allclose(f, e, atol=1e-3))
            for f, e in zip(found, self._expected, strict=True)
        )


def vector(body: bytes) -> NDArray[np.float32]:
    """Of an answer in MessagePack; empty where there is none."""
    if not body:
        return np.empty(0, np.float32)
    dense = msgspec.msgpack.decode(body)["items"][0]["dense"]
    return np.frombuffer(dense["data"], dense["dtype"]).astype(np.float32)

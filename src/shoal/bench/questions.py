"""What `chaos` asks, of which models, and what must be answered.

Decides the kinds of requests: texts, bulk, items too large for the queue, and models that do not
all fit. No item is ever sent twice, and each one's vector is known beforehand. Pure; it must not
know how requests are sent or what is harmed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from shoal.bench.cards import fake
from shoal.runtimes.fake import hashing
from shoal.values import TrafficClass

#: Takes texts, and is on every machine.
MODEL = "slow-fake"
#: Takes files, and texts of any length: it looks at a digest.
FILES_MODEL = "files-fake"
#: Two of these fit on a machine, beside the others.
PACKED = [f"packed-fake-{number}" for number in range(8)]
PACKED_MB = 400
LANE_MB = 1_100
DIM = 8
#: The word that kills a runtime, as the model's card says.
BOMB = "bomb"

#: Enough for two units.
BULK_ITEMS = 70
#: Above `payload_bytes`.
LARGE_BYTES = 1_100_000
#: Requests of a row that ask for the same model, so that most of them find it loaded.
ROW = 4

Item = str | bytes


def _card(name: str, mb: int, options: dict[str, Any], **card: Any) -> str:
    """A batch takes 20 ms and 2 ms an item: faults find work in flight."""
    timed = {"base_s": 0.02, "item_s": 0.002, "bytes": mb * 1_000_000, **options}
    return fake(name, timed, (0.02, 0.0, 0.002), dim=DIM, memory={"weights_mb": mb}, **card)


#: Name -> its card.
CARDS = {
    MODEL: _card(MODEL, 1, {"crash": BOMB}),
    FILES_MODEL: _card(FILES_MODEL, 1, {"inputs": "media"}, inputs=["text", "image"]),
    **{name: _card(name, PACKED_MB, {"load_s": 0.1}) for name in PACKED},
}


class Question(msgspec.Struct, frozen=True):
    """One encode request."""

    model: str
    items: list[Item]
    klass: TrafficClass = "work"

    def request(self, timeout_s: float) -> bytes:
        """As it goes over the connection: JSON, or MessagePack where there are files."""
        files = any(isinstance(item, bytes) for item in self.items)
        encode = msgspec.msgpack.encode if files else msgspec.json.encode
        body = encode({"items": self.items})
        head = (
            f"POST /v1/encode/{self.model} HTTP/1.1\r\nHost: gateway\r\n"
            f"Content-Type: application/{'msgpack' if files else 'json'}\r\n"
            f"Accept: application/json\r\nX-Class: {self.klass}\r\n"
            f"X-Request-Timeout: {timeout_s:.3f}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def is_right(self, answered: list[dict[str, Any]]) -> bool:
        """Whether every item has its own vector."""
        return len(answered) == len(self.items) and all(
            "dense" in answer
            and np.allclose(answer["dense"], expected(item, self.model), atol=1e-5)
            for answer, item in zip(answered, self.items, strict=True)
        )


def expected(item: Item, model: str = MODEL) -> hashing.Vectors:
    """The vector that the fake runtime must give this item."""
    if model == FILES_MODEL:
        packed = hashing.pack_media([item.encode() if isinstance(item, str) else item])
    else:
        packed = hashing.pack_texts([str(item)])
    (vector,) = hashing.vectors_of(*packed, DIM, hashing.seed_of(model, "dense"))
    return np.asarray(vector, dtype=np.float32)


class Kind(msgspec.Struct, frozen=True):
    """A kind of request: how many callers ask it, and what, from a phase's name and a number."""

    name: str
    callers: int
    question: Callable[[str, int], Question]


def texts(phase: str, number: int) -> Question:
    """One to three texts."""
    return Question(MODEL, [f"{phase} {number}.{i}" for i in range(1 + number % 3)])


def _bulk(phase: str, number: int) -> Question:
    items: list[Item] = [f"{phase} bulk {number}.{i}" for i in range(BULK_ITEMS)]
    return Question(MODEL, items, "bulk")


def _large(phase: str, number: int) -> Question:
    """An image, a long text beside a short one, or two images."""
    name = f"{phase} large {number}"
    text = name.ljust(LARGE_BYTES, ".")
    choices: list[list[Item]] = [
        [text.encode()],
        [text, f"{name} short"],
        [text.encode(), text[::-1].encode()],
    ]
    return Question(FILES_MODEL, choices[number % len(choices)])


def _spread(phase: str, number: int) -> Question:
    """A text for one of the models that do not all fit; the first ones are asked more often."""
    shares = [1 / (1 + place) for place in range(len(PACKED))]
    (model,) = random.Random(f"{phase} {number // ROW}").choices(PACKED, shares)
    return Question(model, [f"{phase} packed {number}"])


KINDS = [
    Kind("texts", 18, texts),
    Kind("bulk", 4, _bulk),
    Kind("large items", 4, _large),
    Kind("packed models", 6, _spread),
]

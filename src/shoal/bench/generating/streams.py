"""Sequences asked of a runtime, and when their tokens came; of some only what they do beside the others."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import Protocol

import msgspec
import numpy as np

from shoal.bench.failure import BenchFailed
from shoal.wire.arrays import Array, from_wire, to_wire
from shoal.wire.socket import CancelBatch, Chunk, Failed, FromRuntime, Generate, Generated, Sampling


class Asked(msgspec.Struct, frozen=True):
    """A prompt, and how many tokens are to follow.

    Attributes:
        after: it is asked once so many tokens of all came.
        beside: it is called off once all that are not are over.
        images: uint8 [images, height, width, 3], that stand among its tokens.
    """

    prompt: list[int]
    new_tokens: int
    after: int = 0
    beside: bool = False
    images: Array | None = None


class Stream(msgspec.Struct):
    """Seconds since the first sequence was asked: when this one was, and when each of its tokens came."""

    began_s: float
    tokens_s: list[float] = []
    ids: list[int] = []
    cached_tokens: int = 0

    @property
    def first_s(self) -> float:
        """Until its first token."""
        return self.tokens_s[0] - self.began_s

    def pauses_s(self, since_s: float = 0.0, until_s: float = math.inf) -> list[float]:
        """Between each two of its tokens, of which the second came between these."""
        return [b - a for a, b in pairwise(self.tokens_s) if since_s <= b < until_s]

    @property
    def pause_s(self) -> float:
        """The longest of them."""
        return max(self.pauses_s(), default=0.0)


def ended_before(found: list[Stream]) -> bool:
    """Whether one of them was over before the last of them had its first token: it says nothing of the rest."""
    return any(stream.tokens_s[-1] < found[-1].tokens_s[0] for stream in found)


class Asks(Protocol):
    """A runtime, or what stands for one."""

    def send(self, message: Generate | CancelBatch, /) -> None:
        """Begin a sequence, or end one."""

    async def hear(self) -> FromRuntime:
        """What comes next, of whichever sequence."""


async def streams(runtime: Asks, model: str, asked: list[Asked], seed: int) -> list[Stream]:
    """All of them, greedy, to their last token. Raises `BenchFailed` where one fails."""
    began = time.perf_counter()
    found: dict[int, Stream] = {}
    waiting, came = list(enumerate(asked)), 0
    under_way = dict(enumerate(asked))
    while under_way:
        while waiting and waiting[0][1].after <= came:
            number, one = waiting.pop(0)
            found[number] = Stream(time.perf_counter() - began)
            prompt = to_wire(np.array(one.prompt, np.int32))
            sampling = Sampling(one.new_tokens, temperature=0.0, seed=seed)
            inputs = None if one.images is None else [one.images]
            runtime.send(Generate(number, model, prompt, sampling, inputs=inputs))
        match message := await runtime.hear():
            case Chunk():
                ids = from_wire(message.tokens).tolist()
                now = time.perf_counter() - began
                found[message.batch].tokens_s += [now] * len(ids)
                found[message.batch].ids += ids
                came += len(ids)
            case Generated():
                found[message.batch].cached_tokens = message.cached_tokens
                own = not under_way.pop(message.batch).beside
                if own and all(one.beside for one in under_way.values()):
                    for number in under_way:
                        runtime.send(CancelBatch(number))
            case Failed() | _:
                raise BenchFailed(f"the runtime answered a sequence with {message}")
    return [found[number] for number in range(len(asked))]

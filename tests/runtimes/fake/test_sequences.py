"""Sequences through a real process of the fake runtime: what the server makes of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from shoal.runtimes.link import RuntimeProcess
from shoal.runtimes.spec import RuntimeSpec
from shoal.wire import codec
from shoal.wire import socket as m
from shoal.wire.arrays import from_wire, to_wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEADLINE_S = 60.0


class Session:
    def __init__(self) -> None:
        self.heard: asyncio.Queue[codec.Message] = asyncio.Queue()
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.process = RuntimeProcess(
            RuntimeSpec("fake"),
            self.heard.put_nowait,
            lambda status, _: self.ended.set_result(status),
        )

    async def hear(self) -> Any:
        return await asyncio.wait_for(self.heard.get(), DEADLINE_S)

    async def load(self, model: str, sequences: int, **options: Any) -> None:
        heads = {"dense": {"dim": 4}, "generate": {}}
        self.process.send(m.Load(model, "", "fake", heads, options=options, sequences=sequences))
        assert isinstance(await self.hear(), m.Loaded)

    async def until_over(self, *batches: int) -> dict[int, tuple[list[int], Any]]:
        """Of each: the tokens that came, and how it ended."""
        tokens: defaultdict[int, list[int]] = defaultdict(list)
        over: dict[int, Any] = {}
        while not over.keys() >= set(batches):
            message = await self.hear()
            if isinstance(message, m.Chunk):
                tokens[message.batch] += from_wire(message.tokens).tolist()
            elif isinstance(message, m.Generated | m.Failed):
                assert message.batch is not None
                over[message.batch] = message
        return {batch: (tokens[batch], over[batch]) for batch in batches}


@pytest_asyncio.fixture(loop_scope="module")
async def session() -> AsyncIterator[Session]:
    session = Session()
    await session.process.start(DEADLINE_S)
    yield session
    await session.process.stop()


def generate(batch: int, prompt: list[int], new: int, **sampling: Any) -> m.Generate:
    drawn = m.Sampling(new, **({"temperature": 0.0} | sampling))
    return m.Generate(batch, "chat", to_wire(np.array(prompt, np.int32)), drawn)


def run(batch: int) -> m.Run:
    ids = to_wire(np.array([1, 2], np.int32))
    return m.Run(batch, "chat", ["dense"], ids, to_wire(np.array([2], np.int32)))


async def test_a_sequence_becomes_its_tokens_and_its_end(session: Session) -> None:
    await session.load("chat", 4)
    session.process.send(generate(1, [5, 6], 3))
    tokens, over = (await session.until_over(1))[1]
    assert tokens == [5, 6, 5]
    assert (over.finish, over.new_tokens) == ("length", 3)


async def test_an_id_that_ends_it_is_counted_and_not_told(session: Session) -> None:
    await session.load("chat", 4)
    session.process.send(generate(1, [5, 6, 7], 9, stop=[7], logprobs=2))
    tokens, over = (await session.until_over(1))[1]
    assert tokens == [5, 6]
    assert (over.finish, over.new_tokens) == ("stop", 3)


async def test_the_seed_decides_what_is_drawn(session: Session) -> None:
    await session.load("chat", 4)
    prompt = list(range(50))
    for batch, seed in ((1, 7), (2, 7), (3, 8)):
        session.process.send(generate(batch, prompt, 20, temperature=1.0, seed=seed))
    over = await session.until_over(1, 2, 3)
    assert over[1][0] == over[2][0] != over[3][0]


async def test_one_that_comes_later_joins_those_under_way(session: Session) -> None:
    await session.load("chat", 4, new_token_s=0.005)
    session.process.send(generate(1, [5], 60))
    await session.hear()
    session.process.send(generate(2, [6], 3))
    await session.until_over(2)
    session.process.send(m.CancelBatch(1))
    _, over = (await session.until_over(1))[1]
    assert over.finish == "cancelled"
    assert 3 < over.new_tokens < 60


async def test_more_than_there_are_places_wait(session: Session) -> None:
    await session.load("chat", 1, new_token_s=0.001)
    for batch in (1, 2, 3):
        session.process.send(generate(batch, [batch], 5))
    order = [message.batch for _ in range(18) if (message := await session.hear())]
    assert order == sorted(order)


async def test_a_batch_has_its_turn_between_two_passes(session: Session) -> None:
    await session.load("chat", 4, new_token_s=0.005)
    session.process.send(generate(1, [5], 200))
    await session.hear()
    session.process.send(run(2))
    kinds = [type(await session.hear()) for _ in range(20)]
    assert m.Done in kinds
    session.process.send(m.CancelBatch(1))
    await session.until_over(1)


async def test_unload_waits_for_its_sequences(session: Session) -> None:
    await session.load("chat", 4, new_token_s=0.002)
    session.process.send(generate(1, [5], 20))
    session.process.send(m.Unload("chat"))
    messages = [await session.hear() for _ in range(22)]
    assert isinstance(messages[-2], m.Generated)
    assert isinstance(messages[-1], m.Unloaded)


async def test_what_cannot_begin_is_answered_with_why(session: Session) -> None:
    await session.load("chat", 0)
    session.process.send(generate(1, [5], 5))
    _, over = (await session.until_over(1))[1]
    assert isinstance(over, m.Failed)
    assert "generate nothing" in over.message
    session.process.send(m.Unload("chat"))
    assert isinstance(await session.hear(), m.Unloaded)


async def test_one_that_fails_leaves_the_others(session: Session) -> None:
    await session.load("chat", 4, fail=99)
    session.process.send(generate(1, [5], 5))
    session.process.send(generate(2, [99], 5))
    over = await session.until_over(1, 2)
    assert over[1][1].finish == "length"
    assert over[2][1].code == "compute_failed"

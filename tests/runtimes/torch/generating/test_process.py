"""Sequences through a real process: called off at any moment, and beside batches and loads."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from shoal.runtimes.link import RuntimeProcess
from shoal.runtimes.spec import RuntimeSpec
from shoal.wire import socket as m
from shoal.wire.arrays import from_wire, to_wire
from tests.runtimes.torch.generating import texts

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEADLINE_S = 60.0


class Session:
    """A process with one tiny model."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.process = RuntimeProcess(
            RuntimeSpec("torch"), self.heard.put_nowait, lambda status, _: ended.set_result(status)
        )
        self.tokens: defaultdict[int, list[int]] = defaultdict(list)
        self.over: dict[int, Any] = {}

    async def hear(self) -> Any:
        message = await asyncio.wait_for(self.heard.get(), DEADLINE_S)
        if isinstance(message, m.Chunk):
            self.tokens[message.batch] += from_wire(message.tokens).tolist()
        elif isinstance(message, m.Generated | m.Failed) and message.batch is not None:
            assert message.batch not in self.over, "each is answered once"
            self.over[message.batch] = message
        return message

    async def until(self, *batches: int) -> None:
        while not self.over.keys() >= set(batches):
            await self.hear()

    def send(self, message: Any) -> None:
        self.process.send(message)


@pytest_asyncio.fixture(loop_scope="module", params=["llama", "t5"])
async def session(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Session]:
    """Of a model that goes on with prompts, and of one that reads them first."""
    family = request.param
    if family == "t5":
        texts.make_t5(tmp_path, "gated")
    else:
        texts.make(family, tmp_path)
    session = Session()
    await session.process.start(DEADLINE_S)
    heads = {"generate": {"head": "generate"}, "dense": {"head": "dense", "pooling": "last"}}
    load = m.Load("m", str(tmp_path), family, heads, max_tokens=700, sequences=4)
    session.send(load)
    assert isinstance(await session.hear(), m.Loaded)
    yield session
    await session.process.stop()


async def test_many_called_off_at_random_leave_everything_as_it_was(session: Session) -> None:
    """A hundred, four at a time; after them the same text is as fast to begin and the same."""
    rng = random.Random(8)
    prompts = texts.prompts([rng.randrange(1, 120) for _ in range(100)])
    session.send(texts.asked(1000, prompts[0], 60))
    await session.until(1000)
    for batch, prompt in enumerate(prompts):
        session.send(texts.asked(batch, prompt, 200))
        for _ in range(rng.randrange(4)):
            await session.hear()
        if rng.random() < 0.9:
            session.send(m.CancelBatch(rng.randrange(batch + 1)))
    for batch in range(100):
        session.send(m.CancelBatch(batch))
    await session.until(*range(100))
    codes = {getattr(over, "finish", None) or over.code for over in session.over.values()}
    assert codes == {"cancelled", "length"}
    session.send(texts.asked(1001, prompts[0], 60))
    await session.until(1001)
    assert session.tokens[1001] == session.tokens[1000]
    session.send(m.Unload("m"))
    assert isinstance(await session.hear(), m.Unloaded)


async def test_a_batch_has_its_turn_and_an_unload_waits(session: Session) -> None:
    ids = np.array([5, 6], np.int32)
    run = m.Run(2, "m", ["dense"], to_wire(ids), to_wire(np.array([2], np.int32)))
    session.send(texts.asked(1, [5], 300))
    await session.hear()
    session.send(run)
    session.send(m.Unload("m"))
    order = [await session.hear()]
    while not isinstance(order[-1], m.Unloaded):
        order.append(await session.hear())
    kinds = [type(message) for message in order]
    assert kinds.index(m.Done) < kinds.index(m.Generated) < kinds.index(m.Unloaded)
    assert len(session.tokens[1]) == 300

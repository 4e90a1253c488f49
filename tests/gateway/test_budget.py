"""Turns of the event loop that bodies are read in."""

from __future__ import annotations

import asyncio
from collections import Counter

from shoal.gateway.budget import READS_A_TURN, BodyBudget


async def test_few_bodies_are_read_on_in_one_turn_and_each_gets_its_own() -> None:
    budget = BodyBudget(1)
    reads: list[tuple[int, int]] = []  # turn of the loop, body
    bodies, pieces, turn = 3 * READS_A_TURN, 5, 0

    async def read(body: int) -> None:
        for _ in range(pieces):
            await budget.turn()
            reads.append((turn, body))
            await asyncio.sleep(0)  # until the socket has more

    reading = asyncio.gather(*map(read, range(bodies)))
    while not reading.done():
        await asyncio.sleep(0)
        turn += 1
    assert Counter(body for _, body in reads) == dict.fromkeys(range(bodies), pieces)
    assert max(Counter(turn for turn, _ in reads).values()) <= READS_A_TURN
    order = [body for _, body in reads]
    assert sorted(order[:bodies]) == list(range(bodies)), "nobody reads twice before all did once"


async def test_a_caller_that_left_takes_no_turn() -> None:
    budget = BodyBudget(1)
    first = [asyncio.create_task(budget.turn()) for _ in range(READS_A_TURN)]
    left = [asyncio.create_task(budget.turn()) for _ in range(3 * READS_A_TURN)]
    last = asyncio.create_task(budget.turn())
    await asyncio.sleep(0)
    for task in left:
        task.cancel()
    await asyncio.wait_for(asyncio.gather(*first, last), 30)
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.wait_for(budget.turn(), 30)

"""What the tests of the broker share."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from shoal.broker.base import Delivery, PullEnd
from shoal.broker.connection import Connection
from shoal.wire import subjects

POOL, MODEL = "default", "all-MiniLM-L6-v2"
SUBJECT = subjects.work_subject("work", POOL, MODEL)

Connect = Callable[..., Awaitable[Connection]]


async def eventually(condition: Callable[[], object], within_s: float = 30.0) -> None:
    """Wait until `condition` holds."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.002)


async def pause(pid: int) -> None:
    """Stop a process, all its threads, until it gets SIGCONT."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")

    def stopped() -> bool:
        states = [
            (task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()
        ]
        return set(states) == {"T"}

    await eventually(stopped)


class Recorder:
    """What a `Puller` called back, in order."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[int, Delivery]] = []
        self.ends: dict[int, PullEnd] = {}

    def on_delivery(self, pull_id: int, delivery: Delivery) -> None:
        assert pull_id not in self.ends, "a delivery after the end"
        self.deliveries.append((pull_id, delivery))

    def on_end(self, pull_id: int, reason: PullEnd) -> None:
        assert pull_id not in self.ends, "a second end"
        self.ends[pull_id] = reason

    def data(self) -> list[bytes]:
        return [delivery.data for _, delivery in self.deliveries]

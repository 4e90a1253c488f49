"""What was accepted survives a broker that keeps dying, whoever is connected meanwhile."""

import asyncio
import os
import signal

import pytest

from shoal.broker.base import Delivery, PullEnd
from shoal.broker.connection import Connection
from shoal.broker.pulls import Puller
from shoal.broker.server import BrokerServer
from shoal.broker.streams import ensure_consumer
from shoal.errors import ShoalError

from .harness import MODEL, POOL, SUBJECT, Connect, eventually

CRASHES = 4


class Worker:
    """Pulls for ever and acks, asking for the server's confirmation."""

    def __init__(self, connection: Connection) -> None:
        self.seen: set[int] = set()
        self._connection = connection
        self._puller = Puller(connection, self._delivered, self._ended)
        self._last = 0

    def pull(self) -> None:
        self._last += 1
        self._puller.pull(self._last, "work", POOL, MODEL, 16, 5.0)

    def _delivered(self, pull_id: int, delivery: Delivery) -> None:
        self.seen.add(int(delivery.data))
        self._connection.ack(delivery.ack)

    def _ended(self, pull_id: int, reason: PullEnd) -> None:
        if reason in ("filled", "expired"):
            self.pull()


@pytest.mark.slow
async def test_no_accepted_unit_is_lost(
    broker: BrokerServer, connection: Connection, connect: Connect
) -> None:
    # What the broker had sent as it died comes again after this.
    await ensure_consumer(connection, "work", POOL, MODEL, 1.0)
    accepted: set[int] = set()
    stop = False
    workers: list[Worker] = []
    pulling = await connect(on_reconnected=lambda: workers[0].pull())
    workers.append(Worker(pulling))
    workers[0].pull()

    async def publish_one(number: int) -> None:
        try:
            await connection.publish_unit(SUBJECT, b"%d" % number, 60, f"id-{number}")
            accepted.add(number)
        except ShoalError:
            await asyncio.sleep(0.01)

    async def publish() -> None:
        number = 0
        while not stop:
            await asyncio.gather(*(publish_one(number + offset) for offset in range(20)))
            number += 20

    async def enough(goal: int) -> None:
        await eventually(lambda: len(accepted) >= goal and pulling.connected)

    publishing = asyncio.create_task(publish())
    for crash in range(1, CRASHES + 1):
        await enough(len(accepted) + 200)
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL if crash % 2 else signal.SIGTERM)
        await broker.wait()
        await broker.start()
    await eventually(lambda: connection.connected and pulling.connected)
    stop = True
    await publishing
    await eventually(lambda: accepted <= workers[0].seen)

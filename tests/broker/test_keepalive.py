"""Held units stay ours while the event loop stalls, and not longer than they are held."""

import asyncio
import time

import pytest

from shoal.broker.connection import Connection
from shoal.broker.keepalive import Keepalive
from shoal.broker.pulls import Puller
from shoal.broker.streams import ensure_consumer
from shoal.errors import Unavailable
from shoal.settings import CommonSettings

from .harness import MODEL, POOL, SUBJECT, Recorder, eventually

ACK_WAIT_S = 1.5


async def test_a_stalled_loop_keeps_its_units(
    connection: Connection, settings: CommonSettings, puller: Puller, recorder: Recorder
) -> None:
    await ensure_consumer(connection, "work", POOL, MODEL, ACK_WAIT_S)
    keepalive = await Keepalive.open(settings, "keepalive", ACK_WAIT_S)
    await connection.publish_unit(SUBJECT, b"x", 60, "id")
    puller.pull(1, "work", POOL, MODEL, 2, 30.0)
    await eventually(lambda: recorder.deliveries)
    ack = recorder.deliveries[0][1].ack
    keepalive.hold(ack)
    time.sleep(2.5 * ACK_WAIT_S)  # the stall
    await connection.flush()
    assert len(recorder.deliveries) == 1
    keepalive.release(ack)
    keepalive.release(ack)
    assert keepalive.held == 0
    await eventually(lambda: len(recorder.deliveries) == 2)
    assert recorder.deliveries[1][1].delivered == 2
    await keepalive.close()
    await keepalive.close()


async def test_a_missing_broker_is_the_error_of_open() -> None:
    settings = CommonSettings(broker_url="nats://127.0.0.1:1")
    opening = Keepalive.open(settings, "keepalive", 1.0, wait_s=0.3)
    with pytest.raises(Unavailable, match="cannot reach the broker"):
        await asyncio.wait_for(opening, 30)

"""Pulls: every way one ends, and that nothing delivered is ever lost."""

import asyncio
import os
import random
import signal

import pytest

from shoal.broker import pulls as module
from shoal.broker.connection import Connection
from shoal.broker.pulls import Puller
from shoal.broker.server import BrokerServer
from shoal.broker.streams import ensure_consumer
from shoal.errors import Unavailable
from shoal.wire import subjects

from .harness import MODEL, POOL, SUBJECT, Connect, Recorder, eventually, pause


async def publish(connection: Connection, count: int, prefix: str = "id") -> None:
    await asyncio.gather(
        *(
            connection.publish_unit(SUBJECT, b"%d" % number, 60, f"{prefix}-{number}")
            for number in range(count)
        )
    )


async def counted(connection: Connection, count: int) -> None:
    """Wait until the consumer knows of `count` units: a stream confirms before it tells them."""
    info = f"CONSUMER.INFO.{subjects.stream('work')}.{subjects.consumer(POOL, MODEL)}"
    async with asyncio.timeout(30):
        while (await connection.api(info, {}, dict))["num_pending"] < count:
            pass


async def stand(connection: Connection, puller: Puller, recorder: Recorder) -> None:
    """Leave pull 1 open, and known to the server: it takes requests in from a queue of its own."""
    await publish(connection, 1, "first")
    puller.pull(1, "work", POOL, MODEL, 3, 30.0)
    await eventually(lambda: recorder.deliveries)
    connection.ack(recorder.deliveries[0][1].ack)


async def test_a_pull_is_filled(connection: Connection, puller: Puller, recorder: Recorder) -> None:
    await publish(connection, 5)
    puller.pull(7, "work", POOL, MODEL, 3, 5.0)
    await eventually(lambda: 7 in recorder.ends)
    assert recorder.ends == {7: "filled"}
    assert recorder.data() == [b"0", b"1", b"2"]
    assert [(d.delivered, d.stream_sequence, d.pending) for _, d in recorder.deliveries] == [
        (1, 1, 4),
        (1, 2, 3),
        (1, 3, 2),
    ]


async def test_a_standing_pull_delivers_as_units_come_and_expires(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    puller.pull(1, "work", POOL, MODEL, 3, 0.3)
    await publish(connection, 1)
    await eventually(lambda: recorder.deliveries)
    assert recorder.ends == {}
    await eventually(lambda: recorder.ends == {1: "expired"})


async def test_a_pull_that_does_not_wait_takes_what_is_there(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    puller.pull(1, "work", POOL, MODEL, 3, None)
    await eventually(lambda: recorder.ends == {1: "empty"})
    await publish(connection, 2)
    await counted(connection, 2)
    puller.pull(2, "work", POOL, MODEL, 3, None)
    await eventually(lambda: recorder.ends.get(2) == "empty")
    assert len(recorder.deliveries) == 2


async def test_a_withdrawn_pull_leaves_units_to_others(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    puller.pull(1, "work", POOL, MODEL, 3, 30.0)
    puller.pull(2, "work", POOL, MODEL, 3, 30.0)
    puller.withdraw(1)
    await eventually(lambda: recorder.ends == {1: "withdrawn"})
    await publish(connection, 2)
    await eventually(lambda: len(recorder.deliveries) == 2)
    assert {pull_id for pull_id, _ in recorder.deliveries} == {2}
    puller.withdraw(1)  # its end crossed with this: ignored


async def test_a_consumer_that_is_deleted_is_reported(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await stand(connection, puller, recorder)
    name = subjects.consumer(POOL, MODEL)
    await connection.api(f"CONSUMER.DELETE.shoal-work.{name}", {}, dict)
    await eventually(lambda: recorder.ends == {1: "consumer_gone"})
    puller.pull(2, "work", POOL, MODEL, 3, 30.0)
    await eventually(lambda: recorder.ends.get(2) == "consumer_gone")
    await ensure_consumer(connection, "work", POOL, MODEL, 30.0)
    await publish(connection, 1)
    puller.pull(3, "work", POOL, MODEL, 1, 30.0)
    await eventually(lambda: recorder.ends.get(3) == "filled")


async def test_a_stream_that_is_deleted_is_reported(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await stand(connection, puller, recorder)
    await connection.api("STREAM.DELETE.shoal-work", {}, dict)
    await eventually(lambda: recorder.ends == {1: "consumer_gone"})


async def test_too_many_pulls_are_a_conflict(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    config = {
        "durable_name": "narrow",
        "filter_subject": subjects.work_subject("work", "other", "narrow"),
        "ack_policy": "explicit",
        "max_waiting": 1,
    }
    request = {"stream_name": "shoal-work", "config": config}
    name = subjects.consumer("other", "narrow")
    config["durable_name"] = name
    subject = f"CONSUMER.CREATE.shoal-work.{name}.{config['filter_subject']}"
    assert "error" not in await connection.api(subject, request, dict)
    puller.pull(1, "work", "other", "narrow", 1, 30.0)
    puller.pull(2, "work", "other", "narrow", 1, 30.0)
    await eventually(lambda: recorder.ends == {2: "conflict"})


async def test_losing_the_broker_ends_every_pull_and_leaves_the_puller_usable(
    broker: BrokerServer, connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await publish(connection, 1)
    puller.pull(1, "work", POOL, MODEL, 3, 30.0)
    puller.pull(2, "work", POOL, MODEL, 3, 30.0)
    await eventually(lambda: recorder.deliveries)
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    await eventually(lambda: recorder.ends == {1: "disconnected", 2: "disconnected"})
    with pytest.raises(Unavailable):
        puller.pull(3, "work", POOL, MODEL, 3, 30.0)
    await broker.wait()
    await broker.start()
    await eventually(lambda: connection.connected)
    await publish(connection, 2, "later")
    puller.pull(4, "work", POOL, MODEL, 2, 30.0)
    await eventually(lambda: recorder.ends.get(4) == "filled")
    assert 3 not in recorder.ends


async def test_a_pull_withdrawn_as_the_broker_dies_still_ends(
    broker: BrokerServer, connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    puller.pull(1, "work", POOL, MODEL, 3, 30.0)
    await connection.flush()
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    puller.withdraw(1)
    await eventually(lambda: recorder.ends == {1: "disconnected"})


async def test_a_broker_that_falls_silent_does_not_keep_a_pull_open(
    broker: BrokerServer,
    connection: Connection,
    puller: Puller,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_GRACE_S", 0.1)
    assert broker.pid is not None
    await pause(broker.pid)
    puller.pull(1, "work", POOL, MODEL, 3, 0.1)
    await asyncio.sleep(0.3)  # past the pull's time and its grace
    os.kill(broker.pid, signal.SIGCONT)
    await eventually(lambda: recorder.ends == {1: "expired"})


async def test_a_unit_that_nobody_acks_goes_to_the_next(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await ensure_consumer(connection, "work", POOL, MODEL, 0.3)
    await publish(connection, 1)
    puller.pull(1, "work", POOL, MODEL, 1, 5.0)
    await eventually(lambda: 1 in recorder.ends)
    puller.pull(2, "work", POOL, MODEL, 1, 5.0)
    await eventually(lambda: 2 in recorder.ends)
    assert [delivery.delivered for _, delivery in recorder.deliveries] == [1, 2]


async def test_one_pull_id_cannot_be_open_twice(puller: Puller) -> None:
    puller.pull(1, "work", POOL, MODEL, 1, 5.0)
    with pytest.raises(ValueError, match="pull 1 is still open"):
        puller.pull(1, "work", POOL, MODEL, 1, 5.0)


async def test_closing_withdraws_everything(puller: Puller, recorder: Recorder) -> None:
    for pull_id in range(3):
        puller.pull(pull_id, "work", POOL, MODEL, 1, 30.0)
    puller.close()
    await eventually(lambda: recorder.ends == dict.fromkeys(range(3), "withdrawn"))
    assert puller.open_pulls == 0


async def test_withdrawing_under_fire_loses_and_delays_nothing(
    connection: Connection, connect: Connect, recorder: Recorder
) -> None:
    """Units sent to an inbox as it goes away come back at once: `ack_wait` is 30 s here."""
    seed = random.Random(7)
    puller = Puller(connection, recorder.on_delivery, recorder.on_end)
    publisher = await connect()
    total = 1500

    async def flood() -> None:
        number = 0
        while number < total:
            for _ in range(seed.randrange(1, 8)):
                publisher.publish_unit(SUBJECT, b"%d" % number, 60, f"id-{number}")
                number += 1
            await asyncio.sleep(seed.random() * 0.002)

    flooding = asyncio.create_task(flood())
    pull_id = 0
    while not flooding.done():
        pull_id += 1
        puller.pull(pull_id, "work", POOL, MODEL, seed.choice([1, 3, 50]), 5.0)
        await asyncio.sleep(seed.random() * 0.003)
        puller.withdraw(pull_id)
    await flooding
    puller.pull(0, "work", POOL, MODEL, 10 * total, 60.0)
    await eventually(lambda: len(set(recorder.data())) >= total)
    assert len(recorder.data()) == len(set(recorder.data()))

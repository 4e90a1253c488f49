"""Streams and consumers: made once, changed where they differ, refused with a reason."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.broker import streams as module
from shoal.broker.connection import Connection
from shoal.broker.server import find_binary
from shoal.broker.streams import ensure_consumer, ensure_streams, recall
from shoal.errors import BrokerError, Unavailable
from shoal.settings import CommonSettings
from shoal.wire import subjects

from .harness import MODEL, POOL, SUBJECT, Connect, eventually


async def stream_config(connection: Connection, name: str = "shoal-work") -> dict[str, Any]:
    answer: dict[str, Any] = await connection.api(f"STREAM.INFO.{name}", {}, dict)
    config: dict[str, Any] = answer["config"]
    return config


async def consumer_config(connection: Connection) -> dict[str, Any]:
    name = subjects.consumer(POOL, MODEL)
    answer: dict[str, Any] = await connection.api(f"CONSUMER.INFO.shoal-work.{name}", {}, dict)
    config: dict[str, Any] = answer["config"]
    return config


async def test_streams_are_made_as_the_design_says(connect: Connect) -> None:
    connection = await connect()
    await ensure_streams(connection)
    for klass in subjects.CLASSES:
        config = await stream_config(connection, subjects.stream(klass))
        assert config["subjects"] == [f"shoal.{klass}.>"]
        assert (config["retention"], config["storage"]) == ("workqueue", "file")
        assert config["discard"] == "new" and config["discard_new_per_subject"]
        assert config["allow_msg_ttl"]


async def test_many_processes_may_start_at_once(connect: Connect) -> None:
    connections = [await connect() for _ in range(4)]
    await asyncio.gather(*(ensure_streams(connection) for connection in connections))
    await asyncio.gather(
        *(ensure_consumer(connection, "work", POOL, MODEL, 10.0) for connection in connections)
    )
    await ensure_streams(connections[0])


async def test_a_stream_of_another_version_is_changed_and_keeps_its_units(
    connection: Connection,
) -> None:
    config = await stream_config(connection)
    older = {**config, "max_msgs": 7, "allow_msg_ttl": False, "discard_new_per_subject": False}
    await connection.api("STREAM.DELETE.shoal-work", {}, dict)
    await connection.api("STREAM.CREATE.shoal-work", older, dict)
    connection.publish(SUBJECT, b"kept")
    await ensure_streams(connection)
    assert await stream_config(connection) == config
    info = await connection.api("STREAM.INFO.shoal-work", {}, dict)
    assert info["state"]["messages"] == 1
    assert await connection.publish_unit(SUBJECT, b"x", 60, "id") == 2


async def test_a_consumer_follows_its_settings(connection: Connection) -> None:
    assert (await consumer_config(connection))["ack_wait"] == 30 * 10**9
    await ensure_consumer(connection, "work", POOL, MODEL, 12.5)
    config = await consumer_config(connection)
    assert config["ack_wait"] == 12.5 * 10**9
    assert config["max_deliver"] == config["max_ack_pending"] == -1
    assert config["filter_subject"] == SUBJECT


async def test_what_jetstream_never_changes_stays_as_it_is(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (await consumer_config(connection))["max_waiting"]
    monkeypatch.setattr(module, "_MAX_WAITING", before + 1)
    await ensure_consumer(connection, "work", POOL, MODEL, 12.5)
    config = await consumer_config(connection)
    assert (config["max_waiting"], config["ack_wait"]) == (before, 12.5 * 10**9)


async def test_names_with_odd_characters_get_a_consumer(connection: Connection) -> None:
    for model in ("org/name.v1", "größe *", "a>b", "x=y_z"):
        await ensure_consumer(connection, "work", "pool 1", model, 10.0)
        subject = subjects.work_subject("work", "pool 1", model)
        await connection.publish_unit(subject, b"x", 60, model.encode().hex())


async def test_a_unit_that_is_recalled_leaves_the_queue_alone(connection: Connection) -> None:
    first = await connection.publish_unit(SUBJECT, b"gone", 60, "id-1")
    await connection.publish_unit(SUBJECT, b"stays", 60, "id-2")
    recall(connection, "work", first)
    recall(connection, "work", first)
    recall(connection, "work", first + 100)
    await connection.flush()
    info = await connection.api("STREAM.INFO.shoal-work", {}, dict)
    assert (info["state"]["messages"], info["state"]["first_seq"]) == (1, first + 1)
    consumer = subjects.consumer(POOL, MODEL)
    info = await connection.api(f"CONSUMER.INFO.shoal-work.{consumer}", {}, dict)
    assert info["num_pending"] == 1


async def test_overlapping_filters_are_refused_with_the_reason(connection: Connection) -> None:
    request = {
        "stream_name": "shoal-work",
        "config": {
            "durable_name": "greedy",
            "filter_subject": "shoal.work.>",
            "ack_policy": "explicit",
        },
    }
    answer = await connection.api("CONSUMER.CREATE.shoal-work.greedy.shoal.work.>", request, dict)
    assert answer["error"]["err_code"] == 10100
    other = {**await stream_config(connection), "name": "other", "subjects": [SUBJECT]}
    await connection.api("STREAM.DELETE.shoal-work", {}, dict)
    await connection.api("STREAM.CREATE.other", other, dict)
    with pytest.raises(BrokerError, match=r"cannot create the stream shoal-work: .*overlap"):
        await ensure_streams(connection)


async def test_no_stream_yet_is_an_error_of_the_consumer(connect: Connect) -> None:
    connection = await connect()
    with pytest.raises(BrokerError, match=r"cannot create the consumer .*stream not found"):
        await ensure_consumer(connection, "work", POOL, MODEL, 10.0)


@asynccontextmanager
async def plain_broker(tmp_path: Path, extra: str = "") -> AsyncIterator[CommonSettings]:
    """A nats-server that is not set up for Shoal."""
    config = tmp_path / "nats.conf"
    config.write_text(f'port: -1\nhost: 127.0.0.1\nports_file_dir: "{tmp_path}"\n{extra}')
    process = await asyncio.create_subprocess_exec(
        find_binary(None), "-c", str(config), stderr=subprocess.DEVNULL
    )
    await eventually(lambda: any(file.read_text() for file in tmp_path.glob("*.ports")))
    (ports,) = tmp_path.glob("*.ports")
    (url,) = msgspec.json.decode(ports.read_bytes())["nats"]
    yield CommonSettings(broker_url=url)
    process.terminate()
    await process.wait()


async def test_a_broker_without_jetstream_says_so(tmp_path: Path) -> None:
    async with plain_broker(tmp_path) as settings:
        connection = await Connection.open(settings, "test")
        with pytest.raises(Unavailable, match="nobody at the broker answers this"):
            await ensure_streams(connection)
        await connection.close()


async def test_a_broker_with_too_little_room_says_how_much_it_needs(tmp_path: Path) -> None:
    store = f'jetstream {{ store_dir: "{tmp_path / "store"}", max_file_store: 1MB }}'
    async with plain_broker(tmp_path, store) as settings:
        connection = await Connection.open(settings, "test")
        with pytest.raises(BrokerError, match=r"max_file_store at least \d+ GiB"):
            await ensure_streams(connection)
        await connection.close()


async def test_a_broker_that_is_too_old_is_refused(tmp_path: Path) -> None:
    """An old server answers a request for per-message TTLs with settings that lack them."""
    async with plain_broker(tmp_path) as settings:
        old, connection = [await Connection.open(settings, "test") for _ in range(2)]

        def answer(data: bytes, reply: str, status: str | None, subject: str) -> None:
            answered: dict[str, Any]
            if ".INFO." in subject:
                answered = {"error": {"code": 404, "err_code": 10059}}
            else:
                answered = {"config": {**msgspec.json.decode(data), "allow_msg_ttl": None}}
            old.publish(reply, msgspec.json.encode(answered))

        old.subscribe("$JS.API.>", answer)
        await old.flush()
        with pytest.raises(
            BrokerError, match=r"nats-server [\d.]+ did not take allow_msg_ttl .* 2\.11 or"
        ):
            await ensure_streams(connection)
        await connection.close()
        await old.close()

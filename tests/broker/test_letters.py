"""Dead letters on a real broker: stored once, read in order, dropped for good."""

import time
from pathlib import Path

import pytest

from shoal.broker import letters
from shoal.broker.connection import Connection
from shoal.broker.server import BrokerServer
from shoal.broker.streams import ensure_streams
from shoal.errors import NotFound, PayloadTooLarge, ProtocolError
from shoal.settings import CommonSettings
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import Cancel, DeadLetter

from .harness import POOL


def letter(data: bytes = b"unit", **fields: str) -> DeadLetter:
    return DeadLetter(data, "dead_lettered", "it crashed", "w1", 3, [1], **fields)


async def kept(connection: Connection, after: int = 0) -> list[letters.Kept]:
    found = [one async for one in letters.letters(connection, after)]
    readable = [one for one in found if isinstance(one, letters.Kept)]
    assert found == readable
    return readable


async def test_letters_come_back_as_they_were_oldest_first(connection: Connection) -> None:
    first = await letters.keep(connection, POOL, letter(model="a/b"), "u1.1")
    second = await letters.keep(connection, "gpu", letter(tenant="acme"), "u2.1")
    found = await kept(connection)
    assert [one.id for one in found] == [first, second]
    assert [one.letter for one in found] == [letter(model="a/b"), letter(tenant="acme")]
    assert abs(found[0].stored_s - time.time()) < 30
    assert await kept(connection, first) == found[1:]
    assert await letters.get(connection, second) == found[1]


async def test_one_that_is_stored_twice_is_there_once(connection: Connection) -> None:
    for _ in range(2):
        await letters.keep(connection, POOL, letter(), "u1.1")
    assert len(await kept(connection)) == 1


async def test_a_dropped_letter_is_gone_and_others_keep_their_ids(connection: Connection) -> None:
    ids = [await letters.keep(connection, POOL, letter(), f"u{n}") for n in range(3)]
    await letters.drop(connection, ids[1])
    assert [one.id for one in await kept(connection)] == [ids[0], ids[2]]
    for missing in (ids[1], 99):
        with pytest.raises(NotFound, match=str(missing)):
            await letters.get(connection, missing)
        with pytest.raises(NotFound, match=str(missing)):
            await letters.drop(connection, missing)


@pytest.mark.parametrize("data", [b"", b"\xc1", encode(Cancel(["g"]))])
async def test_one_that_cannot_be_read_hides_no_other_and_can_be_dropped(
    connection: Connection, data: bytes
) -> None:
    first = await letters.keep(connection, POOL, letter(), "u1")
    bad = await connection.store(subjects.dead_subject(POOL), data, "u2")
    last = await letters.keep(connection, POOL, letter(), "u3")
    found = [one async for one in letters.letters(connection)]
    assert [one.id for one in found] == [first, bad, last]
    assert [isinstance(one, letters.Unreadable) for one in found] == [False, True, False]
    with pytest.raises(ProtocolError, match=f"dead letter {bad} cannot be read"):
        await letters.get(connection, bad)
    await letters.drop(connection, bad)
    assert [one.id for one in await kept(connection)] == [first, last]


async def test_without_a_stream_there_are_none(broker: BrokerServer) -> None:
    connection = await Connection.open(CommonSettings(broker_url=broker.url), "test")
    assert await kept(connection) == []
    await connection.close()


async def test_one_that_is_too_large_says_so(connection: Connection) -> None:
    with pytest.raises(PayloadTooLarge):
        await letters.keep(connection, POOL, letter(bytes(connection.max_payload)), "u1")


async def test_the_largest_letter_can_be_read(connection: Connection) -> None:
    data = bytes(connection.max_payload - 4096)
    id_ = await letters.keep(connection, POOL, letter(data), "u1")
    assert (await letters.get(connection, id_)).letter.data == data


async def test_letters_outlive_the_broker(tmp_path: Path) -> None:
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path / "store")))
    for expected in (0, 1):
        await server.start()
        connection = await Connection.open(CommonSettings(broker_url=server.url), "test")
        await ensure_streams(connection)
        assert len(await kept(connection)) == expected
        await letters.keep(connection, POOL, letter(), "u1")
        await connection.close()
        await server.stop()

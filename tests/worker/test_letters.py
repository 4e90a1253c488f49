"""Units that a real worker gives up: kept on the broker before anybody is told."""

import pytest

from shoal.broker import letters
from shoal.broker.connection import Connection
from shoal.broker.letters import Kept
from shoal.errors import Unavailable
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import Unit, decode_queue
from shoal.worker.letters import TOO_LARGE

from .conftest import StartWorker
from .scripted import ScriptedGateway, until

BOMB = {"crash": "bomb", "base_s": 0.02}


async def kept(gateway: ScriptedGateway) -> list[Kept]:
    return [one async for one in letters.letters(gateway.connection)]


async def test_a_dead_letter_is_there_when_the_answer_comes(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    worker = await start_worker(BOMB)
    unit = await gateway.publish(["before", "bomb", "after"], tenant="acme")
    reply = await gateway.reply(unit)
    (one,) = await kept(gateway)
    letter = one.letter
    assert decode_queue(letter.data) == unit
    assert (letter.items, letter.strikes, letter.worker) == ([1], 3, worker.id)
    assert (letter.model, letter.tenant, letter.request) == ("fake", "acme", unit.request)
    assert (letter.code, letter.reason) == ("dead_lettered", reply.errors[1].message)


async def test_the_answer_waits_until_the_letter_is_stored(
    start_worker: StartWorker, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    async def away(*_: object) -> int:
        tries.append(bool(gateway.replies))
        if len(tries) < 4:
            raise Unavailable("not yet")
        return 1

    monkeypatch.setattr("shoal.broker.letters.keep", away)
    await start_worker(BOMB)
    reply = await gateway.reply(await gateway.publish(["bomb"]))
    assert reply.errors[0].code == "dead_lettered"
    assert tries == [False] * 4


async def test_a_letter_that_cannot_be_stored_is_counted_and_the_caller_told(
    start_worker: StartWorker, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.worker.letters.KEEP_S", 0.5)

    async def away(*_: object) -> int:
        raise Unavailable("no disk")

    monkeypatch.setattr("shoal.broker.letters.keep", away)
    worker = await start_worker(BOMB)
    reply = await gateway.reply(await gateway.publish(["bomb"]))
    assert reply.errors[0].code == "dead_lettered"
    assert b"shoal_worker_dead_letters_not_kept_total 1.0" in worker.metrics.render()[0]


async def test_a_unit_too_large_for_a_letter_leaves_one_without_its_content(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    await start_worker(BOMB)
    small = await gateway.publish(["x"])
    room = gateway.connection.max_payload - len(encode(small)) - 150  # and its headers
    await gateway.reply(await gateway.publish(["bomb" + "x" * room]))
    (one,) = await kept(gateway)
    assert one.letter.data == b""
    assert one.letter.reason.endswith(TOO_LARGE)


async def test_an_unreadable_unit_is_kept_and_taken_off_the_queue(
    start_worker: StartWorker, gateway: ScriptedGateway
) -> None:
    await start_worker()
    await gateway.put(b"\xc1 rubbish", "rubbish")
    connection = gateway.connection

    async def left(connection: Connection) -> int:
        answer = await connection.api(f"STREAM.INFO.{subjects.stream('work')}", {}, dict)
        return int(answer["state"]["messages"])

    while not await kept(gateway) or await left(connection):
        await until(lambda: True)
    (one,) = await kept(gateway)
    assert one.letter.data == b"\xc1 rubbish"
    assert (one.letter.code, one.letter.model) == ("protocol", "")
    unit: Unit = await gateway.publish(["fish"])  # the worker goes on
    assert (await gateway.reply(unit)).error is None

"""Units that a real worker gives up: kept on the broker before anybody is told."""

from pathlib import Path

import msgspec
import pytest

from shoal.broker import letters
from shoal.broker.connection import Connection
from shoal.broker.letters import Kept
from shoal.broker.payloads import Payloads
from shoal.errors import Unavailable
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import DeadLetter, Payload, Unit, decode_queue
from shoal.worker.letters import PAYLOADS_GONE, TOO_LARGE

from .conftest import StartWorker
from .scripted import ScriptedGateway, until

BOMB = {"crash": "bomb", "base_s": 0.02}


async def kept(gateway: ScriptedGateway) -> list[Kept]:
    found = [one async for one in letters.letters(gateway.connection)]
    readable = [one for one in found if isinstance(one, Kept)]
    assert found == readable
    return readable


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


async def given_up_with_a_payload(
    start_worker: StartWorker, gateway: ScriptedGateway, folder: Path, size: int
) -> tuple[Unit, DeadLetter]:
    """A unit whose large item kills the runtime; the store lets go of it once it is answered."""
    store = Payloads(folder.as_uri())
    item = msgspec.json.encode("bomb" + "x" * size)
    await store.put("k.1", item)
    await start_worker(BOMB, payload_url=folder.as_uri())
    payloads = {1: Payload("k.1", len(item))}
    unit = await gateway.publish(["fine", ""], payloads=payloads)
    assert (await gateway.reply(unit)).errors[1].code == "dead_lettered"
    await store.delete(["k.1"])
    (one,) = await kept(gateway)
    again = decode_queue(one.letter.data)
    assert isinstance(again, Unit)
    return again, one.letter


async def test_a_large_item_is_kept_with_its_letter(
    start_worker: StartWorker, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    unit, letter = await given_up_with_a_payload(start_worker, gateway, tmp_path / "p", 1_500_000)
    assert unit.payloads == {} and unit.items[1].startswith(b'"bombxxx')
    assert PAYLOADS_GONE not in letter.reason


async def test_a_letter_says_that_an_item_was_too_large_for_it(
    start_worker: StartWorker, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    size = gateway.connection.max_payload
    unit, letter = await given_up_with_a_payload(start_worker, gateway, tmp_path / "p", size)
    assert set(unit.payloads) == {1}
    assert letter.reason.endswith(PAYLOADS_GONE)


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

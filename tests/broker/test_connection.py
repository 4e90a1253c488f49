"""One connection: refusals at open, core messages, publish acks, acks, losing and regaining it."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.broker import connection as module
from shoal.broker.client import check_subject, status_of
from shoal.broker.connection import Connection
from shoal.broker.pulls import Puller
from shoal.broker.server import BrokerServer, find_binary
from shoal.broker.streams import ensure_consumer
from shoal.errors import (
    BrokerError,
    ConfigError,
    Overloaded,
    PayloadTooLarge,
    ProtocolError,
    Unavailable,
)
from shoal.settings import CommonSettings
from shoal.wire import subjects

from .harness import MODEL, POOL, SUBJECT, Connect, Recorder, eventually, pause

Heard = list[tuple[bytes, str, str | None, str]]


def listen(connection: Connection, subject: str) -> Heard:
    heard: Heard = []
    connection.subscribe(subject, lambda *message: heard.append(message))
    return heard


async def on_queue(connection: Connection) -> int:
    info = await connection.api("STREAM.INFO.shoal-work", {}, dict)
    return int(info["state"]["messages"])


async def emptied(connection: Connection) -> None:
    """Wait until no unit is left: a stream removes what is done a moment after it was told."""
    async with asyncio.timeout(30):
        while await on_queue(connection):
            pass


async def crash(broker: BrokerServer) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    await broker.wait()


# --- open -------------------------------------------------------------------------------------


async def test_no_url_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match="broker_url is not set"):
        await Connection.open(CommonSettings(), "test")


@pytest.mark.parametrize("scheme", ["nats://", ""])
async def test_no_broker_there_is_unavailable_and_hides_the_password(scheme: str) -> None:
    settings = CommonSettings(broker_url=f"{scheme}me:secret@127.0.0.1:1")
    with pytest.raises(Unavailable, match=f"cannot reach the broker at {scheme}127.0.0.1:1 ") as e:
        await Connection.open(settings, "test", wait_s=0.3)
    assert "secret" not in e.value.message


async def test_a_url_of_another_kind_is_refused_at_once_and_hides_the_password() -> None:
    settings = CommonSettings(broker_url="nats://127.0.0.1:1,ntas://me:secret@there:4222")
    with pytest.raises(ConfigError, match=r"'ntas://there:4222' .* \(did you mean 'nats'") as e:
        await Connection.open(settings, "test")
    assert "secret" not in e.value.message


async def test_it_waits_for_a_broker_that_starts_late(tmp_path: Path, broker: BrokerServer) -> None:
    url = broker.url
    await broker.stop()
    opening = asyncio.create_task(Connection.open(CommonSettings(broker_url=url), "test"))
    await asyncio.sleep(0)
    await broker.start()
    await (await opening).close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"broker_credentials": "/nowhere.creds"},
            "broker_credentials: cannot read /nowhere.creds",
        ),
        ({"broker_ca": "/nowhere.pem"}, "broker_ca: cannot use /nowhere.pem"),
    ],
)
async def test_files_that_cannot_be_read_are_named(changes: dict[str, Any], message: str) -> None:
    settings = CommonSettings(broker_url="nats://127.0.0.1:1", **changes)
    with pytest.raises(ConfigError, match=message):
        await Connection.open(settings, "test")


async def test_tls_is_not_given_up_silently(broker: BrokerServer) -> None:
    settings = CommonSettings(broker_url=broker.url.replace("nats://", "tls://"))
    with pytest.raises(BrokerError, match=r"TLS was asked for.*does not offer it"):
        await Connection.open(settings, "test")


@pytest.fixture
async def tls_broker(tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    """(url, CA file) of a broker with a self-signed certificate."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-addext", "keyUsage=digitalSignature,keyCertSign"),
        *("-keyout", str(key), "-out", str(certificate)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    config = tmp_path / "tls.conf"
    config.write_text(
        f'port: -1, host: 127.0.0.1, ports_file_dir: "{tmp_path}"\n'
        f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}\n'
    )
    process = await asyncio.create_subprocess_exec(
        find_binary(None), "-c", str(config), stderr=subprocess.DEVNULL
    )
    await eventually(lambda: any(file.read_text() for file in tmp_path.glob("*.ports")))
    (ports,) = tmp_path.glob("*.ports")
    (url,) = msgspec.json.decode(ports.read_bytes())["nats"]
    yield url, certificate
    process.terminate()
    await process.wait()


async def test_tls_with_the_right_ca_works_and_with_none_is_explained(
    tls_broker: tuple[str, Path],
) -> None:
    url, certificate = tls_broker
    with pytest.raises(BrokerError, match=r"certificate is not trusted.*set broker_ca"):
        await Connection.open(CommonSettings(broker_url=url), "test")
    settings = CommonSettings(broker_url=url, broker_ca=str(certificate))
    connection = await Connection.open(settings, "test")
    heard = listen(connection, "a")
    connection.publish("a", b"secret")
    await eventually(lambda: heard)
    await connection.close()


# --- core NATS --------------------------------------------------------------------------------


async def test_messages_arrive_in_order_with_their_reply(connect: Connect) -> None:
    here, there = await connect(), await connect()
    heard = listen(here, "greet.*")
    await here.flush()
    big = os.urandom(2_000_000)
    there.publish("greet.a", b"hi", reply="answer.here")
    there.publish("greet.b", big)
    await eventually(lambda: len(heard) == 2)
    assert heard == [(b"hi", "answer.here", None, "greet.a"), (big, "", None, "greet.b")]


async def test_nobody_listening_is_told_at_the_reply_inbox(connect: Connect) -> None:
    connection = await connect()
    inbox = connection.inbox()
    heard = listen(connection, inbox)
    connection.publish("nobody.home", b"x", reply=inbox)
    await eventually(lambda: heard)
    assert heard == [(b"", "", "503", inbox)]


async def test_unsubscribing_stops_messages(connect: Connect) -> None:
    connection = await connect()
    heard: Heard = []
    subscription = connection.subscribe("a", lambda *message: heard.append(message))
    connection.unsubscribe(subscription)
    connection.publish("a", b"x")
    await connection.flush()
    assert heard == []


async def test_a_handler_that_fails_does_not_stop_the_others(connect: Connect) -> None:
    connection = await connect()
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def fails(data: bytes, reply: str, status: str | None, subject: str) -> None:
        raise ValueError("broken")

    connection.subscribe("a", fails)
    heard = listen(connection, "b")
    connection.publish("a", b"")
    connection.publish("b", b"")
    await eventually(lambda: heard)
    assert [str(context["exception"]) for context in reported] == ["broken"]


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB x 0", "a\tb", "\x00"])
async def test_what_would_break_the_protocol_is_refused(connect: Connect, subject: str) -> None:
    connection = await connect()
    with pytest.raises(ProtocolError, match="not a NATS subject"):
        connection.publish(subject, b"")
    if subject:
        with pytest.raises(ProtocolError, match="not a NATS subject"):
            connection.publish("fine", b"", reply=subject)
    check_subject("shoal.work.p=m._20.>")


async def test_a_message_over_the_limit_is_refused_here(connection: Connection) -> None:
    data = bytes(connection.max_payload)
    connection.publish("a", data)
    with pytest.raises(PayloadTooLarge, match="max_payload"):
        connection.publish("a", data + b"x")
    with pytest.raises(PayloadTooLarge):  # headers count too
        connection.publish_unit(SUBJECT, data, 60, "id")
    await connection.flush()
    assert connection.connected


async def test_its_url_tells_no_password(broker: BrokerServer) -> None:
    url = broker.url.replace("nats://", "nats://me:secret@")
    connection = await Connection.open(CommonSettings(broker_url=url), "test")
    assert connection.url == broker.url
    await connection.close()


async def test_closing_sends_what_was_published(connect: Connect, settings: CommonSettings) -> None:
    here = await connect()
    heard = listen(here, "last.words")
    await here.flush()
    there = await Connection.open(settings, "test")
    for _ in range(1000):
        there.publish("last.words", b"x" * 1000)
    await there.close()
    await there.close()
    await eventually(lambda: len(heard) == 1000)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (None, None),
        (b"NATS/1.0\r\nNats-TTL: 5\r\n\r\n", None),
        (b"NATS/1.0 503\r\n\r\n", "503"),
        (b"NATS/1.0 409 Consumer Deleted\r\nNats-Pending: 1\r\n\r\n", "409 Consumer Deleted"),
    ],
)
def test_a_status_line_is_told_from_headers(headers: bytes | None, status: str | None) -> None:
    assert status_of(headers) == status


# --- publish acks -----------------------------------------------------------------------------


async def test_publishing_gives_the_sequence_and_drops_a_repeated_id(
    connection: Connection,
) -> None:
    futures = [connection.publish_unit(SUBJECT, b"x", 60, f"id-{i}") for i in range(300)]
    assert await asyncio.gather(*futures) == list(range(1, 301))
    assert await connection.publish_unit(SUBJECT, b"x", 60, "id-7") == 8


async def test_an_id_stays_known_after_its_unit_was_acked(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    assert await connection.publish_unit(SUBJECT, b"x", 60, "id") == 1
    puller.pull(1, "work", POOL, MODEL, 1, 5.0)
    await eventually(lambda: recorder.deliveries)
    connection.ack(recorder.deliveries[0][1].ack)
    await connection.flush()
    assert await connection.publish_unit(SUBJECT, b"x", 60, "id") == 1
    puller.pull(2, "work", POOL, MODEL, 1, None)
    await eventually(lambda: recorder.ends.get(2) == "empty")


async def test_a_unit_past_its_time_to_live_is_not_delivered(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await connection.publish_unit(SUBJECT, b"short", 0.2, "id-1")  # rounded up to a second
    await connection.publish_unit(SUBJECT, b"long", 60, "id-2")
    assert await on_queue(connection) == 2
    async with asyncio.timeout(30):
        while await on_queue(connection) == 2:
            await asyncio.sleep(0.02)
    puller.pull(1, "work", POOL, MODEL, 5, None)
    await eventually(lambda: 1 in recorder.ends)
    assert recorder.data() == [b"long"]


async def test_a_unit_held_past_its_time_to_live_never_comes_again(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await ensure_consumer(connection, "work", POOL, MODEL, 1.2)
    await connection.publish_unit(SUBJECT, b"x", 1, "id")
    puller.pull(1, "work", POOL, MODEL, 2, 2.5)
    await eventually(lambda: recorder.ends == {1: "expired"})
    assert len(recorder.deliveries) == 1
    inbox = connection.inbox()
    heard = listen(connection, inbox)
    connection.ack(recorder.deliveries[0][1].ack, reply=inbox)
    await eventually(lambda: heard)
    assert heard[0][2] is None


@pytest.mark.parametrize("limit", ["max_msgs", "max_msgs_per_subject", "max_bytes"])
async def test_a_full_stream_is_overloaded(connection: Connection, limit: str) -> None:
    info = await connection.api("STREAM.INFO.shoal-work", {}, dict)
    config = {**info["config"], limit: 500 if limit == "max_bytes" else 2}
    assert "error" not in await connection.api("STREAM.UPDATE.shoal-work", config, dict)
    taken = 0
    with pytest.raises(Overloaded, match="the queue is full: max"):
        for taken in range(100):
            await connection.publish_unit(SUBJECT, b"x" * 100, 60, f"id-{taken}")
    assert taken == 2


async def test_a_model_at_its_limit_does_not_stop_the_others(connection: Connection) -> None:
    info = await connection.api("STREAM.INFO.shoal-work", {}, dict)
    await connection.api(
        "STREAM.UPDATE.shoal-work", {**info["config"], "max_msgs_per_subject": 1}, dict
    )
    await connection.publish_unit(SUBJECT, b"x", 60, "id-1")
    with pytest.raises(Overloaded):
        await connection.publish_unit(SUBJECT, b"x", 60, "id-2")
    await connection.publish_unit(subjects.work_subject("work", POOL, "other"), b"x", 60, "id-3")


async def test_no_stream_is_unavailable(connect: Connect) -> None:
    connection = await connect()
    with pytest.raises(Unavailable, match="nobody at the broker answers"):
        await connection.publish_unit(SUBJECT, b"x", 60, "id")


async def test_a_broker_that_hangs_is_unavailable_in_bounded_time(
    broker: BrokerServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    connection = await connect()
    assert broker.pid is not None
    await pause(broker.pid)
    try:
        publishing = connection.publish_unit(SUBJECT, b"x", 60, "id")
        with pytest.raises(Unavailable, match=r"did not answer within 0.2 s"):
            await asyncio.wait_for(publishing, 30)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


async def test_a_broker_that_does_not_read_is_overloaded_not_memory(
    broker: BrokerServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.broker.client._MAX_UNSENT_BYTES", 4_000_000)
    connection = await connect()
    assert broker.pid is not None
    await pause(broker.pid)
    try:
        with pytest.raises(Unavailable, match="bytes wait to be sent"):
            for _ in range(200):
                connection.publish("a", bytes(1_000_000))
                await asyncio.sleep(0)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


# --- acks -------------------------------------------------------------------------------------


async def test_every_ack_with_a_reply_is_confirmed_even_the_second(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await connection.publish_unit(SUBJECT, b"x", 60, "id")
    puller.pull(1, "work", POOL, MODEL, 1, 5.0)
    await eventually(lambda: recorder.deliveries)
    ack = recorder.deliveries[0][1].ack
    inbox = connection.inbox()
    heard = listen(connection, inbox)
    connection.ack(ack, reply=inbox)
    await eventually(lambda: len(heard) == 1)
    connection.ack(ack, reply=inbox)
    await eventually(lambda: len(heard) == 2)
    assert [(data, status) for data, _, status, _ in heard] == [(b"", None)] * 2


async def test_an_ack_by_another_process_tells_the_worker(
    connection: Connection, connect: Connect, puller: Puller, recorder: Recorder
) -> None:
    gateway = await connect()

    def answered(data: bytes, reply: str, status: str | None, subject: str) -> None:
        gateway.ack(data.decode(), reply)

    gateway.subscribe("shoal.reply.g", answered)
    await gateway.flush()
    await connection.publish_unit(SUBJECT, b"x", 60, "id")
    puller.pull(1, "work", POOL, MODEL, 1, 5.0)
    await eventually(lambda: recorder.deliveries)
    inbox = connection.inbox()
    heard = listen(connection, inbox)
    connection.publish("shoal.reply.g", recorder.deliveries[0][1].ack.encode(), reply=inbox)
    await eventually(lambda: heard)
    assert heard[0][2] is None
    await emptied(connection)


async def test_a_unit_given_back_comes_again_after_its_delay(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await connection.publish_unit(SUBJECT, b"x", 60, "id")
    loop = asyncio.get_running_loop()
    puller.pull(1, "work", POOL, MODEL, 3, 10.0)
    await eventually(lambda: len(recorder.deliveries) == 1)
    connection.nak(recorder.deliveries[0][1].ack)
    await eventually(lambda: len(recorder.deliveries) == 2)
    returned = loop.time()
    connection.nak(recorder.deliveries[1][1].ack, delay_s=0.3)
    await eventually(lambda: len(recorder.deliveries) == 3)
    assert loop.time() - returned >= 0.28
    assert [delivery.delivered for _, delivery in recorder.deliveries] == [1, 2, 3]
    assert len({delivery.timestamp_s for _, delivery in recorder.deliveries}) == 1


async def test_a_terminated_unit_is_gone(
    connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await connection.publish_unit(SUBJECT, b"x", 60, "id")
    puller.pull(1, "work", POOL, MODEL, 1, 5.0)
    await eventually(lambda: recorder.deliveries)
    connection.term(recorder.deliveries[0][1].ack, "nobody waits for it")
    await connection.flush()
    await emptied(connection)


# --- losing the connection --------------------------------------------------------------------


async def test_losing_the_broker_fails_everything_at_once_and_comes_back(
    broker: BrokerServer, connect: Connect
) -> None:
    events: list[str] = []
    connection = await connect(
        on_disconnected=lambda: events.append("lost"),
        on_reconnected=lambda: events.append("back"),
    )
    heard = listen(connection, "a")
    await connection.flush()
    assert broker.pid is not None
    await pause(broker.pid)  # so that what follows is in flight when it dies
    in_flight = connection.publish_unit(SUBJECT, b"x", 60, "id")
    os.kill(broker.pid, signal.SIGKILL)
    with pytest.raises(Unavailable, match="connection to the broker was lost"):
        await in_flight
    assert events == ["lost"] and not connection.connected
    with pytest.raises(Unavailable, match="not connected"):
        connection.publish("a", b"stale")
    with pytest.raises(Unavailable, match="not connected"):
        connection.publish_unit(SUBJECT, b"x", 60, "id")
    with pytest.raises(Unavailable, match="not connected"):
        connection.ack("$JS.ACK.x")
    late = listen(connection, "b")  # subscribing while away is fine
    await broker.wait()
    await broker.start()
    await eventually(lambda: events == ["lost", "back"])
    connection.publish("a", b"fresh")
    connection.publish("b", b"fresh")
    await eventually(lambda: heard and late)
    assert [data for data, *_ in heard] == [b"fresh"]


async def test_a_unit_held_over_a_crash_can_still_be_acked(
    broker: BrokerServer, connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    await connection.publish_unit(SUBJECT, b"x", 60, "id")
    puller.pull(1, "work", POOL, MODEL, 1, 5.0)
    await eventually(lambda: recorder.deliveries)
    await crash(broker)
    await broker.start()
    await eventually(lambda: connection.connected)
    inbox = connection.inbox()
    heard = listen(connection, inbox)
    connection.ack(recorder.deliveries[0][1].ack, reply=inbox)
    await eventually(lambda: heard)
    await emptied(connection)


async def test_closing_while_the_broker_is_away_ends(
    broker: BrokerServer, connect: Connect
) -> None:
    connection = await connect()
    await crash(broker)
    await eventually(lambda: not connection.connected)
    await asyncio.wait_for(connection.close(), 30)


async def test_closing_as_the_broker_dies_ends(broker: BrokerServer, connect: Connect) -> None:
    connection = await connect()
    for number in range(50):
        listen(connection, f"a.{number}")
    await connection.flush()
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    await asyncio.wait_for(connection.close(), 30)
    assert not connection.connected


async def test_an_answer_that_is_no_json_is_a_protocol_error(connect: Connect) -> None:
    connection, other = await connect(), await connect()
    other.subscribe("$JS.API.ODD", lambda _, reply, *__: other.publish(reply, b"odd"))
    await other.flush()
    with pytest.raises(ProtocolError, match="answer of JetStream"):
        await connection.api("ODD", {}, dict)

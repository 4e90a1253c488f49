"""`shoal dead` against a real deployment whose runtime dies of one word."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from shoal.broker import letters
from shoal.broker.connection import Connection
from shoal.broker.letters import Kept
from shoal.broker.server import BrokerServer
from shoal.broker.streams import ensure_streams
from shoal.cli import letter as show
from shoal.cli import replay
from shoal.cli.main import app
from shoal.errors import InvalidRequest
from shoal.settings import CommonSettings
from shoal.values import EncodeParams
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import DeadLetter, Payload, Unit
from tests.cli import serving as module
from tests.cli.serving import Serving, serve, until

CARD = """
name: fake
source: {dir: .}
family: fake
tasks: {encode: {dense: {dim: 8}}}
max_tokens: 512
profiles: {default: {runtime: fake, options: {inputs: text, crash: bomb}}}
"""


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setattr(module, "CARD", CARD)
    with serve(tmp_path) as running:
        running.up()
        yield running


def dead(serving: Serving, *args: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "shoal", "dead", *args]
    done = subprocess.run(command, env=serving.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def listed(serving: Serving) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(dead(serving, "list", "--json"))
    return entries


def test_a_letter_is_listed_shown_replayed_and_dropped(serving: Serving, tmp_path: Path) -> None:
    url = serving.up()["url"]
    body = {"items": ["good", "a bomb", "fine"]}
    answer = httpx.post(f"{url}/v1/encode/fake", json=body, timeout=60).json()
    assert answer["items"][1]["error"]["code"] == "dead_lettered"

    [entry] = listed(serving)
    assert (entry["model"], entry["items"], entry["strikes"]) == ("fake", [1], 3)
    assert entry["age_s"] < 60 and entry["bytes"] > 20
    id_ = str(entry["id"])
    assert "a bomb" not in dead(serving, "list") + dead(serving, "show", id_)
    shown = json.loads(dead(serving, "show", id_, "--content", "--json"))
    assert shown["content"] == ['"a bomb"']

    told = json.loads(dead(serving, "replay", id_, "--json", code=1))
    assert (told[0]["answered"], told[0]["code"]) == (False, "dead_lettered")
    assert [one["id"] for one in listed(serving)] == [entry["id"]]

    dead(serving, "drop", id_)
    assert listed(serving) == []
    assert "no dead letter" in dead(serving, "show", id_, code=1)
    assert "no dead letters" in dead(serving, "list")


def test_a_letter_whose_cause_is_mended_goes(serving: Serving, tmp_path: Path) -> None:
    url = serving.up()["url"]
    httpx.post(f"{url}/v1/encode/fake", json={"items": ["a bomb"]}, timeout=60)
    assert len(listed(serving)) == 1

    mended = CARD.replace(", crash: bomb", "")
    (tmp_path / "fake.yaml").write_text(mended)
    until(serving.signal("shoal worker", signal.SIGKILL), "the worker is back")
    assert "answered" in dead(serving, "replay", "--all")
    assert listed(serving) == []
    assert "say which letter" in dead(serving, "replay", code=2)


def unit(**changes: Any) -> Unit:
    fields: dict[str, Any] = {
        "id": "g.0",
        "request": "g",
        "model": "m",
        "task": "encode",
        "params": EncodeParams(),
        "encoding": "json",
        "items": [b'"a"', b"", b'"c"'],
        "budget_s": 1.0,
        "reply_to": "shoal.reply.g",
        "payloads": {1: Payload("g/1", 9)},
    }
    return Unit(**fields | changes)


def letter(data: bytes, items: list[int]) -> DeadLetter:
    return DeadLetter(data, "dead_lettered", "it crashed", "w", 3, items)


def test_a_replay_has_only_the_items_at_fault_with_their_payloads() -> None:
    again = replay.renewed(letter(encode(unit()), [1, 2]), "r", 30.0)
    assert again.items == [b"", b'"c"']
    assert again.payloads == {0: Payload("g/1", 9)}
    assert (again.id, again.request, again.reply_to) == ("r.0", "r", "shoal.reply.r")
    assert again.budget_s == 30.0
    assert replay.renewed(letter(encode(unit()), []), "r", 30.0).items == unit().items


@pytest.mark.parametrize("data", [b"", b"\xc1", encode(letter(b"", []))])
def test_what_cannot_be_read_cannot_be_replayed(data: bytes) -> None:
    kept = Kept(1, 0.0, "default", letter(data, []))
    with pytest.raises(InvalidRequest, match="content"):
        replay.unit_of(kept.letter)


@pytest.mark.parametrize("places", [[3], [-1], [0, 7]])
def test_an_item_that_its_unit_has_not_is_told(places: list[int]) -> None:
    damaged = letter(encode(unit()), places)
    with pytest.raises(InvalidRequest, match=rf"item {places[-1]} .* its unit has 3"):
        replay.renewed(damaged, "r", 30.0)
    assert show.content(Kept(1, 0.0, "default", damaged)) == [damaged.data.hex()]


@pytest.mark.parametrize("place", [3, -1])
def test_a_payload_of_no_item_is_told(place: int) -> None:
    data = encode(unit(payloads={})).removesuffix(b"\x80")
    data += msgspec.msgpack.encode({place: ("g/1", 9)})
    with pytest.raises(InvalidRequest, match=f"payload of item {place}, and there are 3"):
        replay.unit_of(letter(data, []))


async def test_a_letter_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    server = BrokerServer(CommonSettings(store_dir=str(tmp_path / "store")))
    await server.start()
    connection = await Connection.open(CommonSettings(broker_url=server.url), "test")
    await ensure_streams(connection)
    ids = [await letters.keep(connection, "default", letter(b"", []), f"u{n}") for n in (1, 2)]
    bad = await connection.store(subjects.dead_subject("default"), b"\xc1", "u3")

    async def dead(*args: str) -> Any:
        arguments = ["dead", *args, "--broker-url", server.url]
        return await asyncio.to_thread(lambda: CliRunner().invoke(app, arguments))

    result = await dead("list", "--json")
    assert (result.exit_code, [one["id"] for one in json.loads(result.stdout)]) == (1, ids)
    assert f"dead letter {bad} cannot be read" in result.stderr
    assert (await dead("drop", str(bad))).exit_code == 0
    assert (await dead("list")).exit_code == 0
    await connection.close()
    await server.stop()


@pytest.mark.parametrize(
    "args",
    [
        ("show", "0"),
        ("show", "99999999999999999999"),
        ("drop", "0"),
        ("replay", "0"),
        ("replay", "1", "--timeout", "nan"),
        ("replay", "1", "--timeout", "0"),
        ("replay", "1", "--timeout", "inf"),
    ],
)
def test_numbers_that_are_none_are_refused_before_a_broker_is_asked(args: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["dead", *args]).exit_code == 2

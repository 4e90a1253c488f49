"""What a command says while it waits, and that it does not wait where nothing will come."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from shoal.cli import waiting
from shoal.cli.context import Running, write_running
from shoal.cli.encode import encode
from shoal.cli.extract import extract
from shoal.cli.score import score
from shoal.errors import Unavailable
from tests.cli.asking import invoke
from tests.client.scripted import Response, ScriptedGateway, Seen, answer, refuses

COMMANDS: dict[str, tuple[Callable[..., None], list[str]]] = {
    "encode": (encode, ["7"]),
    "score": (score, ["q", "7"]),
    "extract": (extract, ["7"]),
}


def run(command: str, *arguments: str) -> Any:
    function, given = COMMANDS[command]
    app = typer.Typer()
    app.command()(function)
    return invoke(app, "mini", *given, *arguments)


@pytest.fixture
def nobody(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address of this machine at which nothing listens."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


@pytest.mark.parametrize("command", COMMANDS)
def test_where_nothing_listens_it_is_said_at_once(command: str, nobody: str) -> None:
    began = time.monotonic()
    with pytest.raises(
        Unavailable, match=f"nothing listens at {nobody}.*`shoal serve MODEL`.*--url"
    ):
        run(command, "--url", nobody)
    assert time.monotonic() - began < 30


def test_a_serve_that_is_there_may_be_starting_its_gateway_anew(
    nobody: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_running(Running(os.getpid(), nobody, "nats://127.0.0.1:1"))
    with pytest.raises(Unavailable, match="cannot connect"):
        run("encode", "--url", nobody, "--timeout", "0.5")


def test_only_this_machine_refuses_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def refused(*args: object) -> socket.socket:
        asked.append(args)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refused)
    waiting.check_listening("http://192.0.2.1:8080")
    waiting.check_listening("https://shoal.example")
    assert asked == []
    with pytest.raises(Unavailable):
        waiting.check_listening("http://localhost")
    assert asked == [(("localhost", 80), waiting.PROBE_S)]


def test_a_resend_is_told_once_for_each_reason(gateway: ScriptedGateway) -> None:
    full = refuses(429, "overloaded", "30 s are queued", retryable=True, retry_after="0.01")
    gateway.script.extend([full, full])
    result = run("encode", "--timeout", "30")
    assert result.exit_code == 0
    said = f"30 s are queued; trying again: {gateway.url}, for 30 s a request at most (--timeout)\n"
    assert result.stderr == said


def test_an_answer_that_is_long_in_coming_is_told(
    gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(seen: Seen) -> Response:
        await asyncio.sleep(0.3)
        return await answer(seen)

    monkeypatch.setattr(waiting, "SILENT_S", 0.1)
    gateway.script.append(late)
    assert run("encode").stderr.startswith(f"waiting for an answer of {gateway.url}, for 60 s")
    monkeypatch.setattr(waiting, "SILENT_S", 30.0)
    assert run("encode").stderr == ""

"""`shoal generate` against a gateway on a real socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from shoal.cli.generate import generate
from shoal.errors import InvalidRequest, StreamBroken
from tests.cli.asking import invoke
from tests.client.scripted import ScriptedGateway, generated, item_error, packed, says
from tests.client.test_generate import EVENTS, streamed

app = typer.Typer()
app.command()(generate)


def run(*arguments: str, stdin: bytes | None = None) -> Any:
    return invoke(app, "writer", *arguments, stdin=stdin)


def test_one_text_is_shown_as_it_comes(gateway: ScriptedGateway) -> None:
    gateway.script.append(says(streamed(*EVENTS)))
    assert run("Once").stdout == "Once upon\n"
    assert gateway.seen[0].path == "/v1/generate/writer"
    assert gateway.seen[0].body == {"params": {}, "items": ["Once"], "stream": True}


def test_an_error_in_its_midst_is_told(gateway: ScriptedGateway) -> None:
    error = {"error": {"code": "stream_broken", "message": "void", "retryable": True}}
    gateway.script.append(says(streamed(*EVENTS[:2], error)))
    with pytest.raises(StreamBroken, match="void"):
        run("Once")


def test_options_travel(gateway: ScriptedGateway, tmp_path: Path) -> None:
    schema = tmp_path / "a.json"
    schema.write_text('{"type": "object"}')
    gateway.script.append(says(streamed(*EVENTS)))
    run(
        *("Hello", "--chat", "--system", "Be brief.", "-n", "9", "--temperature", "0.5"),
        *("--top-p", "0.25", "--seed", "7", "--stop", "a", "--stop", "b"),
        *("--schema", str(schema), "--bulk", "--priority", "3"),
    )
    assert gateway.seen[0].body["params"] == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.25,
        "seed": 7,
        "stop": ["a", "b"],
        "schema": {"type": "object"},
    }
    assert gateway.seen[0].body["items"] == [
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello"},
            ]
        }
    ]
    assert gateway.seen[0].headers["x-class"] == "bulk"
    schema.write_text("[]")
    with pytest.raises(InvalidRequest, match=r"a\.json is no JSON schema"):
        run("Hello", "--schema", str(schema))


def test_several_texts_are_shown_as_a_table(gateway: ScriptedGateway) -> None:
    shown = run("-f", "-", stdin=b"7\n8\n").stdout
    assert "7!" in shown
    assert "8!" in shown
    assert "items: 2, tokens: 4, new: 6" in shown


def test_json_lines_and_errors(gateway: ScriptedGateway) -> None:
    body = {"items": [item_error("compute_failed", "no"), generated("hello")]}
    gateway.script.append(says(packed(body)))
    result = run("a", "b", "--json")
    assert result.exit_code == 1
    assert "error: items[0]: no" in result.stderr
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert first["error"]["code"] == "compute_failed"
    assert second == {
        "index": 1,
        "text": "hello",
        "finish": "stop",
        "prompt_tokens": 2,
        "new_tokens": 3,
        "tokens": 2,
        "truncated": False,
    }


def test_one_text_as_a_line_is_no_stream(gateway: ScriptedGateway) -> None:
    (line,) = run("7", "--json").stdout.splitlines()
    assert json.loads(line)["text"] == "7!"
    assert "stream" not in gateway.seen[0].body

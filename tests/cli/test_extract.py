"""`shoal extract` against a gateway on a real socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from shoal.cli.extract import extract
from shoal.errors import InvalidRequest
from tests.cli.asking import invoke
from tests.client.scripted import ScriptedGateway, item_error, packed, says

app = typer.Typer()
app.command()(extract)


def run(*arguments: str, stdin: bytes | None = None) -> Any:
    return invoke(app, "ner", *arguments, stdin=stdin)


def test_entities_are_shown(gateway: ScriptedGateway) -> None:
    result = run("7", "8")
    assert result.exit_code == 0
    assert "N: 7" in result.stdout
    assert "items: 2, tokens: 4" in result.stdout
    assert gateway.seen[0].path == "/v1/extract/ner"


def test_labels_and_transcripts_are_shown(gateway: ScriptedGateway) -> None:
    labels = [{"label": f"class-{n}", "score": 0.5} for n in range(7)]
    heard = {"text": " hello there", "segments": []}
    gateway.script.append(says(packed({"items": [{"labels": labels}, heard, {"entities": []}]})))
    shown = run("a", "b", "c").stdout
    assert "class-0 0.50" in shown
    assert "class-5" not in shown
    assert "… 2 more" in shown
    assert "hello there" in shown
    assert "nothing" in shown


def test_options_travel(gateway: ScriptedGateway) -> None:
    run("7", "-l", "war", "--label", "peace", "--threshold", "0.25", "--multi-label")
    assert gateway.seen[0].body["params"] == {
        "labels": ["war", "peace"],
        "threshold": 0.25,
        "multi_label": True,
        "truncate": True,
    }


def test_a_schema_is_read_from_a_file(gateway: ScriptedGateway, tmp_path: Path) -> None:
    path = tmp_path / "bill.json"
    path.write_text('{"type": "object", "properties": {"sum": {"type": "number"}}}')
    evidence = {"field": "sum", "text": "7 EUR", "score": 0.5, "start": 0, "end": 5}
    told = {"fields": {"sum": 7.0, "date": None}, "evidence": [evidence]}
    gateway.script.append(says(packed({"items": [told]})))
    shown = run("7 EUR", "--schema", str(path)).stdout
    assert gateway.seen[0].body["params"]["schema"] == json.loads(path.read_text())
    assert "sum: 7.0" in shown
    assert "date: none" in shown
    path.write_text("[]")
    with pytest.raises(InvalidRequest, match=r"bill\.json is no JSON schema"):
        run("7 EUR", "--schema", str(path))


def test_json_lines_in_and_out(gateway: ScriptedGateway, tmp_path: Path) -> None:
    lines = b'{"text": "7"}\n{"text": "8"}\n'
    result = run("--field", "text", "-o", "-", stdin=lines)
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    entity = {"text": "7", "label": "N", "score": 0.5, "start": 0, "end": 1}
    assert first == {"index": 0, "entities": [entity], "tokens": 2, "truncated": True}
    assert second["index"] == 1


def test_files_that_all_fail_are_named(gateway: ScriptedGateway, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"\0" + name.encode())
    bad = [item_error("invalid_item", "this image is damaged")] * 2
    first = {"code": "invalid_item", "message": "this image is damaged", "param": "items[0]"}
    gateway.script.append(says(packed({"error": first, "items": bad}, 400)))
    result = run("--files", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"error: {tmp_path / name}: items[{n}]: this image is damaged"
        for n, name in enumerate(("a.png", "b.png"))
    ]


def test_files_are_named_in_the_lines(gateway: ScriptedGateway, tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        (tmp_path / name).write_bytes(b"RIFF\x00" + name.encode())
    heard = {"text": "hello", "language": "en", "segments": []}
    gateway.script.append(says(packed({"items": [item_error("invalid_item", "no"), heard]})))
    result = run("--files", str(tmp_path), "--json")
    assert result.exit_code == 1
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert (first["error"]["code"], first["file"]) == ("invalid_item", str(tmp_path / "a.wav"))
    assert f"error: {tmp_path / 'a.wav'}: " in result.stderr
    assert second["file"] == str(tmp_path / "b.wav")
    assert (second["text"], second["language"]) == ("hello", "en")
    assert gateway.seen[0].body["items"] == [b"RIFF\x00a.wav", b"RIFF\x00b.wav"]

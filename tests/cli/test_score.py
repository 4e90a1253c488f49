"""`shoal score` against a gateway on a real socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from shoal.cli.score import score
from shoal.errors import ConfigError
from tests.cli.asking import invoke
from tests.client.scripted import ScriptedGateway, item_error, packed, says

app = typer.Typer()
app.command()(score)


def run(*arguments: str, stdin: bytes | None = None) -> Any:
    return invoke(app, "reranker", *arguments, stdin=stdin)


def test_the_best_come_first(gateway: ScriptedGateway) -> None:
    result = run("q", "7", "9", "8", "--top", "2")
    assert result.exit_code == 0
    assert result.stdout.index("0.0900") < result.stdout.index("0.0800")
    assert "0.0700" not in result.stdout
    assert "documents: 3, tokens: 6" in result.stdout
    assert gateway.seen[0].path == "/v1/score/reranker"
    assert gateway.seen[0].body["query"] == "q"


def test_lines_have_the_order_of_the_documents(gateway: ScriptedGateway, tmp_path: Path) -> None:
    body = {"items": [{"score": 0.5, "tokens": 2}, item_error("compute_failed", "no")]}
    gateway.script.append(says(packed(body)))
    out = tmp_path / "out.jsonl"
    result = run("q", "-f", "-", "-o", str(out), "--raw", "--bulk", stdin=b"7\n8\n")
    assert result.exit_code == 1
    assert "error: items[1]: no" in result.stderr
    first, second = (json.loads(line) for line in out.read_text().splitlines())
    assert first == {"index": 0, "score": 0.5, "tokens": 2, "truncated": False}
    assert second["error"]["code"] == "compute_failed"
    assert gateway.seen[0].body["params"]["raw"] is True
    assert gateway.seen[0].headers["x-class"] == "bulk"


def test_a_folder_of_documents(gateway: ScriptedGateway, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.md").write_text("8")
    (tmp_path / "sub" / "c.md").write_text("9")
    (tmp_path / ".hidden").write_text("no")
    result = run("q", "--files", str(tmp_path))
    assert gateway.seen[0].body["items"] == ["8", "9"]
    assert "documents: 2" in result.stdout
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match="the folder has no files"):
        run("q", "--files", str(empty))


def test_another_file(gateway: ScriptedGateway) -> None:
    with pytest.raises(ConfigError, match=r"name it \.jsonl"):
        run("q", "7", "-o", "x.npy")

"""`shoal encode` against a gateway on a real socket."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from shoal.cli.encode import encode
from shoal.errors import ConfigError, Unauthorized
from tests.cli.asking import invoke
from tests.client.scripted import ScriptedGateway, item_error, packed, refuses, says, vector

app = typer.Typer()
app.command()(encode)


def run(*arguments: str, stdin: bytes | None = None) -> Any:
    return invoke(app, "mini", *arguments, stdin=stdin)


def test_texts_on_the_command_line_are_shown(gateway: ScriptedGateway) -> None:
    result = run("7", "8")
    assert result.exit_code == 0
    assert "+7.0000 +7.0000" in result.stdout
    assert "vectors: 2 × 4 float32, tokens: 4" in result.stdout
    assert result.stderr == ""


def test_its_turn_among_others_is_told(gateway: ScriptedGateway) -> None:
    assert run("7", "--bulk", "--priority", "-3").exit_code == 0
    (seen,) = gateway.seen
    assert (seen.headers["x-class"], seen.headers["x-priority"]) == ("bulk", "-3")


def test_lines_become_a_npy(gateway: ScriptedGateway, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes("\ufeff1\r\n2\n3".encode())
    out = tmp_path / "out.npy"
    result = run("-f", str(tmp_path / "in.txt"), "-o", str(out), "--dtype", "float16")
    assert (result.exit_code, result.stdout) == (0, "")
    vectors = np.load(out)
    assert vectors.dtype == np.float16
    assert vectors[:, 0].tolist() == [1, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npy"]


def test_a_pipe_to_a_pipe(gateway: ScriptedGateway) -> None:
    result = run("-o", "-", stdin=b"5\n6\n")
    assert np.load(io.BytesIO(result.stdout_bytes))[:, 0].tolist() == [5, 6]


def test_jsonl_in_and_out(gateway: ScriptedGateway) -> None:
    result = run("--field", "text", "--json", stdin=b'{"text": "5"}\n\n{"text": "6", "id": 1}\n')
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[1] == {"index": 1, "vector": [6.0] * 4, "tokens": 2, "truncated": False}
    assert len(lines) == 2


def test_flags_travel(gateway: ScriptedGateway) -> None:
    flags = ["--prompt", "query", "--dimensions", "2", "--no-truncate", "--normalize"]
    assert run("7", *flags, "--api-key", "k").exit_code == 0
    (seen,) = gateway.seen
    assert seen.headers["authorization"] == "Bearer k"
    assert seen.body["params"] == {
        "dimensions": 2,
        "dtype": "float32",
        "normalize": True,
        "truncate": False,
        "prompt": "query",
    }


def test_the_key_comes_from_the_environment(
    gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_API_KEY", "from-env")
    run("7")
    assert gateway.seen[0].headers["authorization"] == "Bearer from-env"


def test_a_text_without_a_vector(gateway: ScriptedGateway, tmp_path: Path) -> None:
    half = says(packed({"items": [vector("7"), item_error("compute_failed", "out of memory")]}))
    gateway.script.extend([half, half, half])
    result = run("7", "8", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout.splitlines()[1])["error"]["code"] == "compute_failed"
    assert "error: items[1]: out of memory" in result.stderr
    result = run("7", "8", "-o", str(tmp_path / "out.npy"))
    assert result.exit_code == 1
    assert "no .npy was written" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert run("7", "8").exit_code == 1


def test_a_refusal_is_the_error_of_the_command(gateway: ScriptedGateway) -> None:
    gateway.script.append(refuses(401, "unauthorized", "no key"))
    with pytest.raises(Unauthorized, match="no key"):
        run("7")


@pytest.mark.parametrize(
    ("arguments", "stdin", "what"),
    [
        (["a", "-f", "x"], b"", "not both"),
        (["-f", "/nowhere/x"], b"", "/nowhere/x: No such file"),
        ([], b"\xff", "not UTF-8 at byte 0"),
        (["--field", "text"], b'{"text": "1"}\n{"test": "1"}', r"stdin:2: no field 'text'.*'test'"),
        (["--field", "text"], b"[", "stdin:1: not JSON"),
        (["--field", "text"], b"[]", "stdin:1: a JSON object is needed, not list"),
        (["--field", "text"], b'{"text": 1}', "field 'text' is not a string"),
        ([], b"", "no texts: stdin is empty"),
        (["--field", "text"], b"\n \n", "no texts: stdin is empty"),
        (["-f", os.devnull], b"1", "no texts: /dev/null is empty"),
        (["1", "-o", "x.txt"], b"", "name it .npy or .jsonl"),
        (["1", "-o", "/nowhere/x.npy"], b"", "--output /nowhere/x.npy: No such file"),
    ],
)
def test_what_a_person_typed_wrong(
    gateway: ScriptedGateway, arguments: list[str], stdin: bytes, what: str
) -> None:
    with pytest.raises(ConfigError, match=what):
        run(*arguments, stdin=stdin)


def test_a_terminal_without_texts(
    gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    from shoal.cli.texts import gather

    with pytest.raises(ConfigError, match="no texts"):
        gather([], None, None)


def test_files_are_sent_as_bytes_and_texts_as_texts(
    gateway: ScriptedGateway, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\x00")
    gateway.script.append(says(packed({"items": [vector("7")]})))
    result = run("--files", str(tmp_path / "a.png"), "--json")
    assert result.exit_code == 0, result.output
    assert gateway.seen[-1].body["items"] == [b"\x89PNG\x00"]
    (tmp_path / "b.txt").write_text("8")
    run("--files", str(tmp_path / "b.txt"), "--json")
    assert gateway.seen[-1].body["items"] == ["8"]
    with pytest.raises(ConfigError, match=r"none\.png: No such file"):
        run("--files", str(tmp_path / "a.png"), str(tmp_path / "none.png"))


def test_outputs_other_than_dense(gateway: ScriptedGateway) -> None:
    flags = ["--vectors", "sparse", "--vectors", "multivector"]
    line = json.loads(run("7", *flags, "--json").stdout)
    assert line["sparse"] == {"indices": [7], "values": [0.5]}
    assert line["multivector"] == [[7.0] * 4] * 2
    assert "vector" not in line
    shown = run("7", *flags).stdout
    assert "sparse: 1 terms" in shown
    assert "multivector: 2 rows" in shown
    with pytest.raises(ConfigError, match="add --json"):
        run("7", *flags, "-o", "x.npy")
    one = {"dtype": "float32", "shape": [3], "data": b"\0" * 12}
    gateway.script.append(says(packed({"items": [{"fde": one, "tokens": 1}]})))
    assert "fde: 3 values" in run("7", "--vectors", "fde").stdout


def test_quantised_vectors_come_with_their_scale(gateway: ScriptedGateway) -> None:
    line = json.loads(run("7", "--dtype", "uint8", "--json").stdout)
    assert line["vector"] == [7] * 4
    assert (line["scale"], line["zero_point"]) == (0.5, 1.0)
    assert "+7 +7" in run("7", "--dtype", "int8").stdout
    with pytest.raises(ConfigError, match="no scales"):
        run("7", "--dtype", "int8", "-o", "x.npy")

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shoal.cli import checks
from shoal.cli.finding import Finding, attempt
from shoal.cli.main import app
from shoal.errors import ConfigError
from shoal.settings import GatewaySettings, WorkerSettings
from tests.catalog.made import sentence_files, write


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def doctor(*args: str) -> tuple[int, dict[str, dict[str, Any]]]:
    result = CliRunner().invoke(app, ["doctor", "--json", *args])
    return result.exit_code, {line["check"]: line for line in json.loads(result.stdout)}


def test_a_machine_that_can_serve(tmp_path: Path) -> None:
    code, findings = doctor("--port", "0", "--cache-dir", str(tmp_path))
    assert code == 0, findings
    assert "starts with JetStream" in findings["broker"]["seen"]
    assert findings["models"]["verdict"] == "ok"  # an empty cache, and nobody asked for a model
    assert findings["models"]["seen"].startswith("0 of ")
    wanted = {
        "python",
        "torch",
        "onnx",
        "gguf",
        "tokenizers",
        "media",
        "catalog",
        "cache",
        "store",
        "memory",
    }
    assert wanted <= {*findings}


def test_without_its_libraries_no_images_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.media().verdict == "ok"
    monkeypatch.setattr(checks, "MEDIA_PACKAGES", ("pillow", "no-such-package"))
    found = checks.media()
    assert found.verdict == "warn"
    assert "no-such-package not installed" in found.seen
    assert "shoal[media]" in found.todo


def test_what_is_wrong_is_told_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        broken = tmp_path / "card.yaml"
        broken.write_text("nmae: x\n")
        args = ["--port", port, "--broker-url", "nats://127.0.0.1:9", "--catalog", str(broken)]
        code, findings = doctor(*args)
    assert code == 1
    for check, seen in (
        ("port", "Address already in use"),
        ("broker", "cannot reach the broker"),
        ("catalog", "nmae"),
    ):
        assert findings[check]["verdict"] == "fail"
        assert seen in findings[check]["seen"]
        assert findings[check]["todo"]


def test_a_check_that_raises_is_a_finding() -> None:
    def broken() -> Finding:
        raise ConfigError("it broke")

    assert attempt("x", broken) == Finding("x", "fail", "it broke", "see the message")


def test_disk_and_memory_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.disk("cache", tmp_path / "not" / "there" / "yet").verdict == "ok"
    monkeypatch.setattr(checks, "NO_DISK_MB", 1 << 40)
    assert checks.disk("cache", tmp_path).verdict == "fail"
    monkeypatch.setattr(checks, "LOW_MEMORY_MB", 1 << 40)
    assert checks.memory().verdict == "warn"


def test_an_address_that_is_not_ours() -> None:
    found = checks.port(GatewaySettings(host="192.0.2.1", port=0))
    assert (found.verdict, found.todo) == ("fail", "choose another: --port 0")


MODEL = "all-MiniLM-L6-v2"


def models(tmp_path: Path, **settings: Any) -> Finding:
    return checks.models(WorkerSettings(cache_dir=str(tmp_path / "cache"), **settings))


def test_what_is_to_be_served_and_is_not_here_is_told(tmp_path: Path) -> None:
    found = models(tmp_path, models=[MODEL, "org/none"])
    assert found.verdict == "warn"
    assert found.seen.endswith(f"those to be served that have none: {MODEL} org/none")
    assert found.todo.endswith(f"shoal models pull {MODEL} org/none")
    assert models(tmp_path, models=[MODEL], offline=True).verdict == "fail"


def test_what_a_card_keeps_copies_of_is_to_be_served(tmp_path: Path) -> None:
    card = tmp_path / "kept.yaml"
    card.write_text(
        "name: kept\nsource: {hub: org/kept}\nfamily: bert\nmax_tokens: 8\nmin_replicas: 1\n"
        "tasks: {encode: {dense: {dim: 8}}}\n"
    )
    assert models(tmp_path, catalog=[str(card)]).seen.endswith(": kept")


def test_a_folder_that_is_here_is_fine(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", sentence_files())
    assert models(tmp_path, models=[str(folder)]).verdict == "ok"


def test_the_models_that_serve_would_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ["--port", "0", "--cache-dir", str(tmp_path)]
    _, findings = doctor(MODEL, *args)
    assert findings["models"]["verdict"] == "warn"
    monkeypatch.setenv("SHOAL_MODELS", "all-minilm")
    code, findings = doctor(*args)
    assert code == 1
    assert "no model is called 'all-minilm'" in findings["models"]["seen"]

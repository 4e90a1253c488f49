import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shoal.cli import checks
from shoal.cli.checks import Finding
from shoal.cli.main import app
from shoal.errors import ConfigError
from shoal.settings import GatewaySettings


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
    assert findings["models"]["verdict"] == "warn"  # an empty cache
    assert "shoal models pull" in findings["models"]["todo"]
    wanted = {"python", "torch", "tokenizers", "media", "catalog", "cache", "store", "memory"}
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

    assert checks.attempt("x", broken) == Finding("x", "fail", "it broke", "see the message")


def test_disk_and_memory_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.disk("cache", tmp_path / "not" / "there" / "yet").verdict == "ok"
    monkeypatch.setattr(checks, "NO_DISK_MB", 1 << 40)
    assert checks.disk("cache", tmp_path).verdict == "fail"
    monkeypatch.setattr(checks, "LOW_MEMORY_MB", 1 << 40)
    assert checks.memory().verdict == "warn"


def test_an_address_that_is_not_ours() -> None:
    found = checks.port(GatewaySettings(host="192.0.2.1", port=0))
    assert (found.verdict, found.todo) == ("fail", "choose another: --port 0")

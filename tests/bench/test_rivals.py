import sys
from pathlib import Path

import pytest

from shoal.bench.rivals import Rival, RivalServer, read_rivals
from shoal.errors import ConfigError, Unavailable

SERVER = f"{sys.executable} -m http.server --bind 127.0.0.1 {{port}}"


def test_rivals_are_read_from_toml(tmp_path: Path) -> None:
    file = tmp_path / "rivals.toml"
    file.write_text('[[rival]]\nname="a"\napi="openai"\ncommand="c"\nmodel="m"\nenv={X="{port}"}\n')
    assert read_rivals(file) == [Rival("a", "openai", "c", "m", env={"X": "{port}"})]


@pytest.mark.parametrize("text", ["[[rival]]\nname = 1", "rival = {", "[[rival]]\nnmae = 'a'"])
def test_a_wrong_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rivals.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"rivals\.toml"):
        read_rivals(file)


def test_a_server_is_started_and_ended() -> None:
    with RivalServer(Rival("r", "openai", SERVER, "m", health="/"), threads=1) as server:
        assert Path(f"/proc/{server.pid}").exists()
    assert not Path(f"/proc/{server.pid}").exists()


def test_a_server_that_ends_is_told_with_its_log() -> None:
    command = f"{sys.executable} -c 'raise SystemExit(\"no model here\")'"
    with pytest.raises(Unavailable, match=r"r did not get ready.*\n.*no model here"):
        RivalServer(Rival("r", "openai", command, "m"), threads=1)

"""Parts of Debian packages, unpacked: a package made here by dpkg-deb."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from shoal.bench.failure import BenchFailed
from shoal.bench.quality import debian
from shoal.catalog import cache

CONTROL = (
    "Package: hello\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.com>\nDescription: x\n"
)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_wanted_files_of_a_folder_are_unpacked(tmp_path: Path) -> None:
    tree, into = tmp_path / "tree", tmp_path / "into"
    for name in ("DEBIAN", "usr/share/hello/en", "usr/share/other"):
        (tree / name).mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL)
    for name in ("hello/en/a.html", "hello/en/a.png", "hello/b.html", "other/c.html"):
        (tree / "usr/share" / name).write_text(name)
    into.mkdir()
    command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(tmp_path / "hello.deb")]
    subprocess.run(command, check=True, capture_output=True)
    debian.unpack(
        tmp_path / "hello.deb", "usr/share/hello", lambda name: name.endswith(".html"), into
    )
    files = {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}
    assert files == {"en/a.html", "b.html"}
    assert (into / "en/a.html").read_text() == "hello/en/a.html"


def test_what_is_cached_is_not_fetched(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = cache.root(None) / "debian" / "hello"
    target.mkdir(parents=True)
    monkeypatch.setenv("PATH", "")
    assert debian.unpacked("hello", "usr/share/hello", bool) == target


def test_without_apt_it_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchFailed, match=r"apt-get download hello.*copy usr/share/hello.*debian"):
        debian.unpacked("hello", "usr/share/hello", bool)
    assert not (cache.root(None) / "debian" / "hello").exists()


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt-get")
def test_a_package_that_is_not_there_is_an_error(home: Path) -> None:
    with pytest.raises(BenchFailed, match="apt-get update"):
        debian.unpacked("no-such-package-anywhere", "usr", bool)

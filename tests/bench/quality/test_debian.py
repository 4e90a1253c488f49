"""Parts of Debian packages, unpacked: a package made here by dpkg-deb."""

from __future__ import annotations

import os
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


needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    tree, archive = tmp_path / "tree", tmp_path / "hello.deb"
    for name in ("DEBIAN", "usr/share/hello/en", "usr/share/other"):
        (tree / name).mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL)
    for name in ("hello/en/a.html", "hello/en/a.png", "hello/b.html", "other/c.html"):
        (tree / "usr/share" / name).write_text(name)
    command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(archive)]
    subprocess.run(command, check=True, capture_output=True)
    return archive


@needs_dpkg
def test_wanted_files_of_a_folder_are_unpacked(package: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    debian.unpack(package, "usr/share/hello", lambda name: name.endswith(".html"), into)
    files = {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}
    assert files == {"en/a.html", "b.html"}
    assert (into / "en/a.html").read_text() == "hello/en/a.html"


@needs_dpkg
def test_a_package_without_such_files_leaves_nothing_in_the_cache(
    package: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of another version; apt is one that finds it at once."""
    apt = home / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text(f"#!/bin/sh\ncp {package} .\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{apt.parent}{os.pathsep}{os.environ['PATH']}")
    found = debian.unpacked("hello", "usr/share/hello", lambda name: name.endswith(".html"))
    assert (found / "b.html").is_file()
    with pytest.raises(BenchFailed, match=r"hello\.deb has none of the files .* of usr/share/bye"):
        debian.unpacked("bye", "usr/share/bye", lambda name: True)
    assert not (cache.root(None) / "debian" / "bye").exists()


@needs_dpkg
def test_a_broken_archive_is_an_error(tmp_path: Path) -> None:
    archive = tmp_path / "hello.deb"
    archive.write_bytes(b"!<arch>\nnonsense")
    with pytest.raises(BenchFailed, match=r"hello\.deb cannot be unpacked"):
        debian.unpack(archive, "usr", bool, tmp_path)


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

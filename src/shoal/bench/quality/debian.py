"""Data that arrive in Debian packages: apt fetches the file, some of it is unpacked into the cache.

Nothing is installed and none of the package's scripts runs.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from shoal.bench.failure import BenchFailed
from shoal.catalog import cache

_TOOLS = ("apt-get", "dpkg-deb")
#: 35 MB over a slow line.
_DOWNLOAD_S = 600


def unpacked(package: str, folder: str, wanted: Callable[[str], bool]) -> Path:
    """The cached files of `folder` of a package, fetched if they are not there.

    Args:
        folder: inside the package, such as ``usr/share/doc/hello``.
        wanted: of a path inside `folder`, whether that file is unpacked.

    Raises:
        BenchFailed: apt is missing or cannot fetch it, or it has no such files; it says what to do.
        SourceError: the cache cannot be written.
    """
    target = cache.root(None) / "debian" / package

    def make(scratch: Path) -> None:
        missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if missing:
            raise BenchFailed(
                f"{' and '.join(missing)} cannot be found, so package {package} cannot be fetched; "
                f"unpack it on a Debian machine (apt-get download {package}; dpkg-deb -x *.deb .) "
                f"and copy {folder} from there to {target}"
            )
        scratch.mkdir(parents=True)
        archive = _downloaded(package, scratch)
        unpack(archive, folder, wanted, scratch)
        archive.unlink()
        if not any(scratch.iterdir()):
            raise BenchFailed(
                f"{archive.name} has none of the files that are wanted of {folder}: this version "
                f"holds them elsewhere; copy them to {target} from one that has them"
            )

    return cache.build(target, make)


def _downloaded(package: str, into: Path) -> Path:
    try:
        fetched = subprocess.run(
            ["apt-get", "download", package],
            cwd=into,
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_S,
        )
    except subprocess.TimeoutExpired:
        raise BenchFailed(
            f"apt-get download {package} took more than {_DOWNLOAD_S} s; check the network"
        ) from None
    if fetched.returncode:
        raise BenchFailed(
            f"apt-get download {package} failed; `apt-get update` may help. It said: "
            f"{fetched.stderr.strip()}"
        )
    (archive,) = into.glob("*.deb")
    return archive


def unpack(archive: Path, folder: str, wanted: Callable[[str], bool], into: Path) -> None:
    """The wanted files of a folder of a package, without the path of that folder.

    Raises `BenchFailed` for an archive that is broken.
    """
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    try:
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE) as listing,
            tarfile.open(fileobj=listing.stdout, mode="r|") as files,
        ):
            for file in files:
                name = file.name.removeprefix("./").removeprefix(f"{folder}/")
                if name != file.name.removeprefix("./") and file.isfile() and wanted(name):
                    files.extract(file.replace(name=name), into, filter="data")
    except tarfile.TarError as error:
        raise BenchFailed(f"{archive.name} cannot be unpacked: {error}; fetch it anew") from None

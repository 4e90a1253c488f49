"""What can be wrong with this machine or its settings: one function a matter, each a `Finding`.

Each tells what was seen and, unless all is well, what to do. Kinds of runtime have checks of their
own (`runtime_checks`).
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
from importlib import metadata
from pathlib import Path

from shoal import cores
from shoal.cli.context import serving_on
from shoal.cli.finding import Finding
from shoal.errors import ShoalError, SourceError
from shoal.installing import install
from shoal.settings import GatewaySettings, WorkerSettings

MB = 1024 * 1024
#: Room for a few small models; below the second one a download will not fit.
LOW_DISK_MB, NO_DISK_MB = 2048, 256
#: torch alone takes about 300 MB in a process.
LOW_MEMORY_MB, NO_MEMORY_MB = 2048, 512
#: Those of the extra `media`.
MEDIA_PACKAGES = ("pillow", "pypdfium2", "soundfile")


def python() -> Finding:
    """The interpreter; an older one could not have imported this."""
    where = f"{platform.system()} {platform.machine()}, {cores.usable()} cores for this process"
    return Finding("python", "ok", f"{platform.python_version()}, {where}")


def tokenizers() -> Finding:
    """The library that the worker cuts texts into tokens with."""
    try:
        return Finding("tokenizers", "ok", metadata.version("tokenizers"))
    except metadata.PackageNotFoundError:
        return Finding("tokenizers", "fail", "not installed", "pip install shoal anew")


def media() -> Finding:
    """The libraries that the worker decodes images and sound with; models of texts need none."""
    found: list[str] = []
    missing: list[str] = []
    for package in MEDIA_PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        seen = f"{', '.join(missing)} not installed: no models of images or sound"
        return Finding("media", "warn", seen, install("media"))
    return Finding("media", "ok", ", ".join(found))


def catalog(settings: GatewaySettings) -> Finding:
    """That every card parses."""
    from shoal.catalog.resolve import Catalog

    try:
        cards = Catalog.load(settings.catalog).cards()
    except ShoalError as error:
        return Finding("catalog", "fail", error.message, "correct the card, or leave it out")
    return Finding("catalog", "ok", f"{len(cards)} model{'' if len(cards) == 1 else 's'}")


def models(settings: WorkerSettings) -> Finding:
    """Whether the files of what is to be served are here; what nobody named may be fetched later."""
    from shoal.catalog.fetch import cached
    from shoal.catalog.infer import card_for
    from shoal.catalog.resolve import Catalog

    try:
        catalog = Catalog.load(settings.catalog)
    except ShoalError:
        return Finding("models", "warn", "not looked at", "correct the catalog first")
    cards = catalog.cards()
    here = {card.name for card in cards if cached(card, settings.cache_dir) is not None}
    missing = [card.name for card in cards if card.min_replicas and card.name not in here]
    for spec in settings.models:
        try:
            card = card_for(spec, catalog, cache_dir=settings.cache_dir, offline=True)
        except SourceError:
            missing.append(spec)
            continue
        if card.name not in here and cached(card, settings.cache_dir) is None:
            missing.append(card.name)
    seen = f"{len(here)} of {len(cards)} of the catalog have their files here"
    if not missing:
        return Finding("models", "ok", seen)
    names = " ".join(dict.fromkeys(missing))
    seen = f"{seen}; those to be served that have none: {names}"
    if settings.offline:
        return Finding("models", "fail", seen, "none is fetched while offline is set: unset it")
    return Finding(
        "models", "warn", seen, f"fetched at start; to do so now: shoal models pull {names}"
    )


def port(settings: GatewaySettings) -> Finding:
    """That the gateway can listen where it is told to."""
    where = f"{settings.host}:{settings.port}"
    try:
        family, kind, *_, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if (running := serving_on(settings.port)) is not None:
            return Finding("port", "ok", f"{where}: held by shoal serve, pid {running.pid}")
        return Finding("port", "fail", f"{where}: {error.strerror}", "choose another: --port 0")
    return Finding("port", "ok", f"{where} is free")


def disk(name: str, folder: Path) -> Finding:
    """Room and the right to write where files will go."""
    standing = next(path for path in (folder, *folder.parents) if path.exists())
    free_mb = shutil.disk_usage(standing).free // MB
    seen = f"{free_mb:,} MB free in {folder}"
    if not os.access(standing, os.W_OK):
        return Finding(name, "fail", f"{standing} cannot be written", f"set {_SETTING[name]}")
    if free_mb < NO_DISK_MB:
        return Finding(name, "fail", seen, f"free some space, or set {_SETTING[name]}")
    if free_mb < LOW_DISK_MB:
        return Finding(name, "warn", seen, f"room for few models; or set {_SETTING[name]}")
    return Finding(name, "ok", seen)


_SETTING = {"cache": "--cache-dir", "store": "--store-dir"}


def memory() -> Finding:
    """Memory that a new process could get."""
    free_mb = _available_bytes() // MB
    seen = f"{free_mb:,} MB available"
    if free_mb < NO_MEMORY_MB:
        return Finding("memory", "fail", seen, "end other programs")
    if free_mb < LOW_MEMORY_MB:
        return Finding("memory", "warn", seen, "enough for one small model")
    return Finding("memory", "ok", seen)


def _available_bytes() -> int:
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    return min(int(fields["MemAvailable"].split()[0]) * 1024, _cgroup_room())


def _cgroup_room() -> int:
    """Bytes left under a container's limit (cgroup v2), or a very large number."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = int((folder / "memory.max").read_text())
        return limit - int((folder / "memory.current").read_text())
    except (OSError, ValueError):  # no cgroup v2 here, or no limit ("max")
        return 1 << 62

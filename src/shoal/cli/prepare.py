"""Before anything is served: which cards are meant, and their files on this machine.

A model without a card gets one inferred, which is shown and written where gateway and worker read
it, so that all processes agree on what the model is.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from shoal.catalog.cache import Progress
from shoal.catalog.card import Card
from shoal.catalog.fetch import cached, fetch
from shoal.catalog.infer import card_for
from shoal.catalog.parse import to_yaml
from shoal.catalog.resolve import Catalog
from shoal.errors import ConfigError, RuntimeMissing, SourceError
from shoal.installing import install
from shoal.runtimes.packages import lacking
from shoal.settings import CommonSettings, WorkerSettings
from shoal.wire.subjects import token
from shoal.worker.devices import lanes_of
from shoal.worker.lanespec import LaneSpec

#: Between two lines about one download.
TELL_EVERY_S = 1.0
MB = 1024 * 1024


class Prepared(msgspec.Struct, frozen=True):
    """`names`: what clients call the models; `cards`: files of the cards that were inferred."""

    names: list[str]
    cards: list[str]


def prepare(settings: WorkerSettings, folder: Path) -> Prepared:
    """Resolve and fetch the models to serve; inferred cards go to `folder`. Blocks.

    Raises:
        UnknownModel, CardError, SourceError: saying which model and what to do.
        RuntimeMissing: nothing that computes one of them is installed; it was not fetched.
        ConfigError: two of them have one name.
    """
    catalog, lane = Catalog.load(settings.catalog), lanes_of(settings)[0]  # they are of one kind
    meant: dict[str, str] = {}
    files = []
    for spec in dict.fromkeys(settings.models):
        card = card_for(spec, catalog, cache_dir=settings.cache_dir, offline=settings.offline)
        if spec not in catalog:
            _check_free(card.name, spec, meant)
            files.append(_write(card, spec, folder))
            catalog = catalog.with_card(card)
        meant.setdefault(card.name, spec)
        _check_runs(card, lane)
        _fetch(card, settings)
    return Prepared([*meant], files)


def _check_free(name: str, spec: str, meant: dict[str, str]) -> None:
    """Raises `ConfigError` where another model that is to be served has the name of an inferred one."""
    if name in meant:
        raise ConfigError(
            f"{meant[name]} and {spec} would both be called '{name}'; link to one of them by "
            "another name, or give it a card (`shoal models show` prints one)"
        )


def _check_runs(card: Card, lane: LaneSpec) -> None:
    kind = lane.profile(card).runtime
    if (module := lacking(kind)) is not None:
        raise RuntimeMissing(
            f"model '{card.name}' cannot run here: the {kind} runtime needs the package '{module}': "
            f"{install(kind)}"
        )


def _write(card: Card, spec: str, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{token(card.name)}.yaml"
    text = to_yaml(card)
    path.write_text(text)
    indented = "".join(f"  {line}\n" for line in text.splitlines())
    _tell(f"{spec} has no card; this one was inferred from its files ({path}):\n{indented}")
    return str(path)


def fetch_named(card: Card, settings: CommonSettings, progress: Progress) -> Path:
    """The folder of the card's files. Raises `SourceError` naming the model."""
    try:
        return fetch(
            card, cache_dir=settings.cache_dir, offline=settings.offline, progress=progress
        )
    except SourceError as error:
        raise SourceError(f"model '{card.name}': {error.message}") from error


def _fetch(card: Card, settings: WorkerSettings) -> None:
    if cached(card, settings.cache_dir) is not None:
        return
    told_at = 0.0

    def tell(what: str, done: int, total: int | None) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= TELL_EVERY_S:
            told_at = time.monotonic()
            of = f" of {total // MB} MB" if total else ""
            _tell(f"fetching {what}: {done // MB} MB{of}")

    _tell(f"fetching {card.name} …")
    fetch_named(card, settings, tell)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

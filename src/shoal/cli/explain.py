"""`shoal serve --explain`: which profile and runtime each model would run with on this machine, and why."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.catalog.card import Card, Profile
from shoal.catalog.choice import Choice, chosen
from shoal.catalog.fetch import cached
from shoal.catalog.infer import card_for
from shoal.catalog.resolve import Catalog
from shoal.installing import install
from shoal.runtimes.packages import missing, versions
from shoal.settings import WorkerSettings
from shoal.worker.devices import lanes_of
from shoal.worker.lanespec import LaneSpec


def explain(settings: WorkerSettings) -> None:
    """Print it for the models that are to be served; nothing is fetched or started.

    Raises `UnknownModel`, `CardError`, `SourceError` for what cannot be served, `ConfigError` for lanes
    that are none.
    """
    catalog, lanes = Catalog.load(settings.catalog), lanes_of(settings)
    names = settings.models or [card.name for card in catalog.cards()]
    print(f"{len(lanes)} lane{'s' * (len(lanes) > 1)} of {lanes[0].device}, ", end="")
    print(f"{lanes[0].threads} thread{'s' * (lanes[0].threads > 1)} each; {_asked(lanes[0])}")
    for name in dict.fromkeys(names):
        card = card_for(name, catalog, cache_dir=settings.cache_dir, offline=settings.offline)
        print()
        for line in _lines(card, lanes[0], settings):
            print(line)


def _asked(lane: LaneSpec) -> str:
    if lane.only:
        return f"profile {lane.kinds[0]}, as was asked for"
    return f"profiles that suit it, best first: {', '.join([*lane.kinds, 'default'])}"


def _lines(card: Card, lane: LaneSpec, settings: WorkerSettings) -> Iterator[str]:
    choice = chosen(card, lane.kinds, missing, only=lane.only)
    cannot = "" if choice.lacks is None else "cannot run here; "
    kind = choice.profile.runtime
    yield f"{card.name}: {cannot}runtime {kind}, {_dtype(choice)}, profile {choice.name}"
    yield f"  why      {_why(choice)}"
    if choice.profile.measured is not None:
        yield f"  measured {choice.profile.measured}"
    if cannot:
        yield f"  install  {install(kind)}"
    for passed in choice.passed:
        why = "comes after it" if passed.why is None else passed.why
        yield f"  not      {_told(passed.name, passed.profile, why)}"
    suited = {choice.name, *(passed.name for passed in choice.passed)}
    for name in [name for name in card.profiles if name not in suited]:
        why = f"for other devices, or with --profile {name}"
        yield f"  not      {_told(name, card.profiles[name], why)}"
    profile = choice.profile
    if card.tasks.generate is not None:
        yield f"  at once  {profile.sequences} texts that are generated"
    else:
        yield (
            f"  batches  up to {profile.max_batch_seconds:g} s, {profile.max_batch_tokens} tokens, "
            f"{profile.max_batch_items} items"
        )
    threads = profile.threads or lane.threads
    options = "".join(f", {key}: {value}" for key, value in profile.options.items())
    yield f"  threads  {threads}{' (the lane’s)' * (not profile.threads)}{options}"
    yield f"  files    {_files(card, settings)}"
    if packages := versions(kind):
        yield f"  packages {packages}"


def _told(name: str, profile: Profile, why: str) -> str:
    measured = "" if profile.measured is None else f"; {profile.measured}"
    return f"{name} (runtime {profile.runtime}): {why}{measured}"


def _dtype(choice: Choice) -> str:
    weights = choice.profile.options.get("weights")
    return str(weights) if weights is not None else f"dtype {choice.profile.dtype}"


def _why(choice: Choice) -> str:
    if choice.lacks is not None:
        return f"nothing that suits can run here: {choice.lacks}"
    lacking = [passed for passed in choice.passed if passed.why is not None]
    if lacking:
        return "the first that suits the device and whose packages are installed"
    return "the first that suits the device" if choice.passed else "the only one that suits"


def _files(card: Card, settings: WorkerSettings) -> str:
    folder = cached(card, settings.cache_dir)
    size = card.memory.weights_mb
    told = "" if size is None else f" ({size:.0f} MB)"
    return f"{folder}{told}" if folder is not None else f"not fetched yet{told}"

"""Which of a card's profiles a model runs with: the first that suits the device and can run here.

Which comes first is the card's order of device kinds, best first; whether its runtime's packages are
installed is asked, since that is no matter of the card. A card of an encoder that ONNX graphs are made of
has a profile for them, whether it says so or not. If none can run, one stands for what to install: on a
processor the first whose runtime is not the heavy one, elsewhere the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from shoal.catalog.card import Card, Profile
from shoal.catalog.families import FAMILIES
from shoal.catalog.tasks import COMPARED

#: What is computed of such a graph, or by the worker of what it gives (`runtimes/onnx/encoders/heads`).
_SCORED = ("cross-encoder", *COMPARED)
_EXTRACTED = ("sequence-labels", "nli", "token-labels")


#: Its packages are gigabytes, and the other runtimes' megabytes.
_HEAVY = "torch"


class Passed(NamedTuple):
    """A profile that suits and was not chosen; `why`: what its runtime lacks, None if another came first."""

    name: str
    profile: Profile
    why: str | None


class Choice(NamedTuple):
    """`lacks`: what the chosen one's runtime lacks, as no other can run either; None: nothing."""

    name: str
    profile: Profile
    lacks: str | None
    passed: list[Passed]


def chosen(
    card: Card, kinds: tuple[str, ...], missing: Callable[[str], str | None], *, only: bool = False
) -> Choice:
    """The profile for a device of these kinds, best first.

    Args:
        missing: what a kind of runtime lacks here; None: nothing.
        only: the first kind's was asked for by name; no other takes its place.
    """
    suited = _graphed(card).suited(*kinds)
    lacking = [missing(profile.runtime) for _, profile in suited]
    first = 0
    if not only:
        able = (n for n, lacks in enumerate(lacking) if lacks is None)
        first = next(able, _to_install(suited) if "cpu" in kinds else 0)
    name, profile = suited[first]
    passed = [Passed(*own, lacking[n]) for n, own in enumerate(suited) if n != first]
    return Choice(name, profile, lacking[first], passed)


def _to_install(suited: list[tuple[str, Profile]]) -> int:
    return next((n for n, (_, profile) in enumerate(suited) if profile.runtime != _HEAVY), 0)


def _graphed(card: Card) -> Card:
    if "onnx" in card.profiles or not is_graphed(card):
        return card
    profiles = {**card.profiles, "onnx": Profile("onnx")}
    return msgspec.structs.replace(card, profiles=profiles)


def is_graphed(card: Card) -> bool:
    """Whether ONNX graphs are made of this model's safetensors for all that its card has it do."""
    family, default, tasks = FAMILIES.get(card.family), card.profile("default"), card.tasks
    if family is None or not family.graphed or default.runtime != "torch" or tasks.generate:
        return False
    if (encode := tasks.encode) is not None and (
        encode.sparse
        or any(made and made.projections for made in (encode.dense, encode.multivector))
    ):
        return False
    return (tasks.score is None or tasks.score.head in _SCORED) and (
        tasks.extract is None or tasks.extract.head in _EXTRACTED
    )

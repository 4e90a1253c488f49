"""Which of a card's profiles a model runs with: the first that suits the device and can run here.

Which comes first is the card's order of device kinds, best first; whether its runtime's packages are
installed is asked, since that is no matter of the card. If none can run, the first one stands: what it
lacks is what to install.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from shoal.catalog.card import Card, Profile


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
    suited = card.suited(*kinds)
    lacking = [missing(profile.runtime) for _, profile in suited]
    first = 0
    if not only:
        first = next((n for n, lacks in enumerate(lacking) if lacks is None), 0)
    name, profile = suited[first]
    passed = [Passed(*own, lacking[n]) for n, own in enumerate(suited) if n != first]
    return Choice(name, profile, lacking[first], passed)

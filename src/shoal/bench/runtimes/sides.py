"""Who is compared: a kind of runtime with a card of the catalog, and how it is told to load it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import msgspec
from tokenizers import Tokenizer

from shoal.bench.eight_bits import in_8_bits
from shoal.catalog.card import Card, Profile, RuntimeKind
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.errors import ConfigError
from shoal.runtimes.packages import missing
from shoal.settings import CommonSettings
from shoal.spelling import nearest
from shoal.worker.models import load_of, loaded_of

#: What an option for cards of one's own says.
CARDS = "More card files or folders of cards; later ones win"


def sides_of(kinds: Iterable[str], model: str, threads: int, catalog: Iterable[str]) -> list[Side]:
    """One for each of `kinds`, of the packaged cards and those of `catalog`.

    Raises:
        CardError: as `Catalog.load`.
        ConfigError, UnknownModel, SourceError: as `Side`.
    """
    cards = Catalog.load(catalog)
    return [Side(asked, model, threads, cards) for asked in kinds]


class Side:
    """One side.

    Attributes:
        name: as it was asked for.
        kind: of its runtime.
        load: what the runtime is told.
        head: that is asked for: the card's first.
    """

    def __init__(self, asked: str, model: str, threads: int, catalog: Catalog) -> None:
        """`asked`: a kind, or ``kind:card`` where it loads another card than `model`, or
        ``kind:card:profile`` where the card has several of this kind; the card may be left empty.

        Raises:
            ConfigError: the kind is unknown, or its packages are not installed here.
            UnknownModel: the catalog has no such card.
            SourceError: its files cannot be had.
        """
        self.name = asked
        self.kind, own, named = (*asked.split(":"), "", "")[:3]
        kinds = get_args(RuntimeKind)
        if self.kind not in kinds:
            raise ConfigError(
                f"--kinds: there is no runtime '{self.kind}'{nearest(self.kind, kinds)}; "
                f"there are {', '.join(kinds)}"
            )
        if (lacking := missing(self.kind)) is not None:
            raise ConfigError(f"--kinds: {lacking}")
        card = in_8_bits(catalog.card(own or model))
        folder = fetch(card, cache_dir=None, offline=False)
        profile = _profile(card, self.kind, named)
        load = load_of(card, loaded_of(card, folder, profile, CommonSettings()), profile)
        self.load = msgspec.structs.replace(load, threads=threads)
        self.head = next(iter(load.heads))
        self._tokenizer = Tokenizer.from_file(str(folder / card.tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(card.max_tokens)

    def tokens(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, special ones included, as the worker would send them."""
        return [found.ids for found in self._tokenizer.encode_batch(texts)]


def _profile(card: Card, kind: str, named: str) -> Profile:
    """The card's one of this name, or its first of this kind; where none is of it, one as usual.

    Raises `ConfigError` where it has none of this name.
    """
    if named and named not in card.profiles:
        raise ConfigError(
            f"--kinds: '{card.name}' has no profile '{named}'{nearest(named, card.profiles)}; it "
            f"has {', '.join(card.profiles)}"
        )
    if named:
        return card.profiles[named]
    own = [profile for profile in card.profiles.values() if profile.runtime == kind]
    return own[0] if own else msgspec.structs.replace(Profile(), runtime=kind)

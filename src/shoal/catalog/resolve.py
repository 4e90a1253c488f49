"""The catalog: every card by name and alias. Decides which card a name means; opens no models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType

import msgspec

from shoal.catalog.card import Card
from shoal.catalog.parse import read_card
from shoal.errors import CardError, UnknownModel
from shoal.spelling import nearest


class Catalog:
    """Cards by name and alias; never changes, `with_card` makes a new one."""

    def __init__(self, cards: Iterable[Card] = ()) -> None:
        self._cards: Mapping[str, Card] = MappingProxyType({card.name: card for card in cards})
        self._by_name = {name: card for card in self._cards.values() for name in _names(card)}

    @classmethod
    def load(cls, extra: Iterable[str] = ()) -> Catalog:
        """The packaged cards, then card files and folders of cards; later ones win.

        A folder's cards may lie in folders below it.

        Raises:
            CardError: a path does not exist, a card is wrong, or two cards of one folder share
                a name or an alias.
        """
        with resources.as_file(resources.files("shoal.catalog") / "models") as packaged:
            catalog = cls()._with_layer(_card_files(packaged))
        for path in extra:
            catalog = catalog._with_layer(_card_files(Path(path).expanduser()))
        return catalog

    def card(self, name: str) -> Card:
        """The card of this name or alias. Raises `UnknownModel` naming the nearest."""
        card = self._by_name.get(name)
        if card is None:
            raise UnknownModel(self.unknown(name), param="model")
        return card

    def unknown(self, name: str) -> str:
        """What to tell whoever asked for a model that is not here."""
        return f"no model is called '{name[:80]}'{nearest(name, self._by_name)}"

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def cards(self) -> list[Card]:
        """All cards, sorted by name."""
        return sorted(self._cards.values(), key=lambda card: card.name)

    def zoo(self) -> list[Card]:
        """The cards whose files come from the package index, sorted by name."""
        return [card for card in self.cards() if card.source.wheel is not None]

    def with_card(self, card: Card) -> Catalog:
        """A catalog in which every name and alias of `card` means `card`."""
        return self._with_cards([card])

    def _with_cards(self, cards: list[Card]) -> Catalog:
        taken = {name for card in cards for name in _names(card)}
        others = [_without_aliases(c, taken) for c in self._cards.values() if c.name not in taken]
        return Catalog([*others, *cards])

    def _with_layer(self, files: Iterable[Path]) -> Catalog:
        cards = []
        origin: dict[str, Path] = {}
        for file in files:
            card = read_card(file)
            for name in _names(card):
                if name in origin:
                    raise CardError(f"{file}: '{name}' is already taken by {origin[name]}")
                origin[name] = file
            cards.append(card)
        return self._with_cards(cards)


def _names(card: Card) -> list[str]:
    return [card.name, *card.aliases]


def _without_aliases(card: Card, taken: set[str]) -> Card:
    if taken.isdisjoint(card.aliases):
        return card
    kept = [alias for alias in card.aliases if alias not in taken]
    return msgspec.structs.replace(card, aliases=kept)


def _card_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif not path.is_dir():
        raise CardError(f"{path}: no such card file or folder of cards")
    elif _is_model(path):
        raise CardError(f"{path}: is a model, not a folder of cards; give it as a model to serve")
    else:
        yield from _cards_below(path)


def _cards_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if not (path.name.startswith(".") or _is_model(path)):
                yield from _cards_below(path)
        elif path.suffix in (".yaml", ".yml"):
            yield path


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file()

"""The cards that come with Shoal, looked at together."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import yaml

from shoal.catalog.card import Card
from shoal.catalog.families import FAMILIES
from shoal.catalog.parse import parse_card, to_yaml
from shoal.catalog.resolve import Catalog
from shoal.cli.docs_cards import FACTS

from .model_types import OTHERS, model_type_of

CARDS = Catalog.load().cards()


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_card_reads_back_and_says_where_it_was_read(card: Card) -> None:
    assert parse_card(to_yaml(card), card.name) == card
    assert card.description
    assert card.source.wheel or card.facts
    assert [fact for fact in card.facts if fact not in FACTS] == []


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_the_type_of_every_model_is_one_of_its_familys(card: Card) -> None:
    if FAMILIES[card.family].model_types:
        assert model_type_of(card) in FAMILIES[card.family].model_types
    else:  # no config.json tells of graphs
        assert FAMILIES[card.family].graphs


def test_only_models_of_the_catalog_have_another_type() -> None:
    assert set(OTHERS) <= {card.name for card in CARDS}


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_hub_model_answers_to_its_repository(card: Card) -> None:
    assert card.source.hub is None or card.source.hub in (card.name, *card.aliases)


def test_no_repository_has_two_cards() -> None:
    sources = Counter((card.source.hub, card.source.path) for card in CARDS if card.source.hub)
    assert [source for source, count in sources.items() if count > 1] == []


def test_loading_them_all_is_a_fraction_of_what_a_parser_in_python_takes() -> None:
    """What every command does first: an eighth, seen where both took their turns."""
    texts = [to_yaml(card) for card in CARDS[::5]]
    start = time.process_time()
    for text in texts:
        yaml.load(text, Loader=yaml.SafeLoader)
    in_python_s = (time.process_time() - start) / len(texts)
    start = time.process_time()
    Catalog.load()
    assert (time.process_time() - start) / len(CARDS) < in_python_s / 2

"""Pieces of entities, put together by text alone."""

from __future__ import annotations

import pytest

from shoal.bench.quality.pieces import apart, parts_words, told, whole
from shoal.wire.objects import Entity

TEXT = "Mail ann.lee@x.org or Bob Lee, Berlin"


def found(*places: tuple[str, str]) -> list[Entity]:
    """Entities of `TEXT`, each behind the one before it."""
    entities, at = [], 0
    for text, label in places:
        at = TEXT.index(text, at)
        entities.append(Entity(text, label, 1.0, at, at + len(text)))
        at += len(text)
    return entities


def test_pieces_of_an_address_are_one() -> None:
    pieces = found(("ann", "MAIL"), (".", "MAIL"), ("lee@x", "MAIL"), ("org", "MAIL"))
    assert whole(TEXT, pieces) == [(5, 18, "MAIL")]
    assert told(pieces) == [(5, 8, "MAIL"), (8, 9, "MAIL"), (9, 14, "MAIL"), (15, 18, "MAIL")]


def test_neighbours_are_not() -> None:
    names = found(("Bob", "NAME"), ("Lee", "NAME"), ("Berlin", "CITY"))
    assert whole(TEXT, names) == [(22, 25, "NAME"), (26, 29, "NAME"), (31, 37, "CITY")]


def test_types_part_a_word() -> None:
    pieces = found(("Ber", "CITY"), ("lin", "NAME"))
    places = whole(TEXT, pieces)
    assert places == [(31, 34, "CITY"), (34, 37, "NAME")]
    assert parts_words(TEXT, places)


@pytest.mark.parametrize(
    ("text", "parts"),
    [("Bob", False), ("Berlin", False), ("ann", False), ("erlin", True), ("Bo", True)],
)
def test_an_edge_inside_a_word_is_seen(text: str, parts: bool) -> None:
    assert parts_words(TEXT, whole(TEXT, found((text, "X")))) is parts


def test_what_one_side_alone_has_is_apart() -> None:
    one = whole(TEXT, found(("Bob", "NAME"), ("Berlin", "CITY")))
    other = whole(TEXT, found(("org", "NAME"), ("Bob", "NAME"), ("Berlin", "NAME")))
    assert apart(one, one) == 0
    assert apart(one, other) == 3

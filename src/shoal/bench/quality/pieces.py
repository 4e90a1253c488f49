"""Entities as Shoal tells them, made of those of the `simple` aggregation, which cuts them. Pure.

The rule is written a second time here, from its description in docs/tasks.md and of text alone, so
that an error in either shows.
"""

from __future__ import annotations

from shoal.wire.objects import Entity

Place = tuple[int, int, str]
"""Start, end and label of an entity."""

#: Signs that stand inside addresses.
_INNER = ("@", ".", "_")


def told(entities: list[Entity]) -> list[Place]:
    """Where entities lie, as they are."""
    return [(entity.start, entity.end, entity.label) for entity in entities]


def whole(text: str, entities: list[Entity]) -> list[Place]:
    """Where entities lie, those of one type as one that no space parts."""
    places: list[Place] = []
    for start, end, label in told(entities):
        if places and places[-1][2] == label and _is_one(text, places[-1][1], start):
            start = places.pop()[0]
        places.append((start, end, label))
    return places


def _is_one(text: str, end: int, start: int) -> bool:
    """Whether nothing lies between, or a sign of addresses between letters or digits."""
    between = text[end:start]
    return not between or (between in _INNER and _is_inside(text, end, start))


def parts_words(text: str, places: list[Place]) -> bool:
    """Whether one of them begins or ends inside a word."""
    return any(_is_inside(text, at, at) for start, end, _ in places for at in (start, end))


def _is_inside(text: str, end: int, start: int) -> bool:
    """Whether letters or digits stand on both sides."""
    return text[end - 1 : end].isalnum() and text[start : start + 1].isalnum()


def apart(ours: list[Place], theirs: list[Place]) -> int:
    """How many either side alone has."""
    return len({*ours} ^ {*theirs})

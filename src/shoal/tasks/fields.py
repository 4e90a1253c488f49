"""`extract` with a schema: entities of labels to the fields of a document, each with its evidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from shoal.tasks.outputs import Rows
from shoal.tasks.schema import Field
from shoal.tasks.typed import Mark, mark_of, read
from shoal.wire.objects import Entity, Evidence

#: Texts of an item that are read as values, in all fields together: fields may share a label, and each
#: is told with its evidence.
_MOST_READ = 10_000
#: Characters that an error repeats of a text; `text` of the evidence has all of it.
_SHOWN = 80

_encode = msgspec.msgpack.Encoder().encode


class Finds(Protocol):
    """What makes entities of an item's rows."""

    def entities(self, rows: Sequence[Rows]) -> list[Entity]:
        """Those that are told, in the order of the text."""
        ...


class Fields(msgspec.Struct, frozen=True):
    """What is told of the entities of a document.

    Attributes:
        text: the document.
        fields: each with the label that it is found under.
    """

    text: str
    finds: Finds
    fields: tuple[tuple[Field, str], ...]

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> bytes:
        """``{"fields": {...}, "evidence": [...]}``: null, or an empty list, is what was not found."""
        found: dict[str, list[Entity]] = {}
        for entity in self.finds.entities(rows):
            found.setdefault(entity.label, []).append(entity)
        mark = mark_of(self.text)
        most = _MOST_READ // len(self.fields)
        fields: dict[str, Any] = {}
        evidence: list[Evidence] = []
        for field, label in self.fields:
            value, told = _value(field, found.get(label, []), mark, most)
            evidence += told
            within = fields
            for name in field.path[:-1]:
                within = within.setdefault(name, {})
            within[field.path[-1]] = value
        return _encode({"fields": fields, "evidence": evidence})


def _place(entity: Entity) -> tuple[int, int]:
    return entity.start, entity.end


def _value(field: Field, found: list[Entity], mark: Mark, most: int) -> tuple[Any, list[Evidence]]:
    """All of a list, in the order of the text; else the likeliest that can be read. Of so many at `most`."""
    likeliest = sorted(found, key=lambda entity: -entity.score)[:most]
    ordered = sorted(likeliest, key=_place) if field.many else likeliest
    values: list[Any] = []
    told: list[Evidence] = []
    for entity in ordered:
        error: str | None = None
        try:
            values.append(read(entity.text, field, mark))
        except ValueError as why:
            error = f"'{entity.text[:_SHOWN]}' {why}"
        told.append(
            Evidence(field.name, entity.text, entity.score, entity.start, entity.end, error)
        )
        if values and not field.many:
            break
    if field.many:
        return values, told
    return (values[0] if values else None), told

"""Texts from which the fields of a schema are filled in, whatever finds the entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from shoal.errors import InvalidRequest
from shoal.tasks.fields import Fields, Finds
from shoal.tasks.schema import Field, read_schema
from shoal.values import ExtractParams
from shoal.worker.prepared import Prepared

#: A field, and the label that it is found under.
Labelled = tuple[Field, str]


def fields_of(params: ExtractParams) -> tuple[Field, ...]:
    """Those of the schema that a caller gave; none where that gave no schema."""
    return read_schema(params.schema) if params.schema else ()


def matched(fields: Sequence[Field], names: Sequence[str]) -> list[Labelled]:
    """Each with the one of a model's own labels that it is called.

    Raises `InvalidRequest` naming a field that is called none of them.
    """
    known = {_plain(name): name for name in names}
    found: list[Labelled] = []
    for field in fields:
        label = next((known[said] for said in map(_plain, field.labels) if said in known), None)
        if label is None:
            raise InvalidRequest(
                f"schema: '{field.name}' is none of this model's labels, which are "
                f"{', '.join(names)}; say which by `x-label`",
                param="schema",
            )
        found.append((field, label))
    return found


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def filling(prepared: Prepared, text: str, fields: Sequence[Labelled]) -> Prepared:
    """The same item, of which fields are told in place of entities, where there are any."""
    if not fields:
        return prepared
    finish = Fields(text, cast(Finds, prepared.finish), tuple(fields))
    return msgspec.structs.replace(prepared, finish=finish)

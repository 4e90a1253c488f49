"""Entities to the fields of a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from shoal.tasks.fields import Fields
from shoal.tasks.outputs import Rows
from shoal.tasks.schema import Field
from shoal.wire.objects import Entity

TEXT = "Ada 1.234 EUR, Bob 12,50 EUR, much"


class Found(msgspec.Struct, frozen=True):
    found: tuple[tuple[str, str, float], ...]

    def entities(self, rows: Sequence[Rows]) -> list[Entity]:
        return [
            Entity(text, label, score, TEXT.index(text), TEXT.index(text) + len(text))
            for text, label, score in self.found
        ]


def told(*found: tuple[str, str, float]) -> Any:
    fields = (
        (Field(("person", "name"), ("name",), "string"), "name"),
        (Field(("person", "all"), ("name",), "string", many=True), "name"),
        (Field(("sum",), ("sum",), "number"), "sum"),
        (Field(("sums",), ("sum",), "number", many=True), "sum"),
    )
    return msgspec.msgpack.decode(Fields(TEXT, Found(found), fields)([]))


def test_the_likeliest_and_all() -> None:
    answer = told(("Ada", "name", 0.6), ("1.234 EUR", "sum", 0.9), ("Bob", "name", 0.8))
    assert answer["fields"] == {
        "person": {"name": "Bob", "all": ["Ada", "Bob"]},
        "sum": 1234.0,
        "sums": [1234.0],
    }
    assert [(e["field"], e["text"], e["start"]) for e in answer["evidence"]] == [
        ("person.name", "Bob", 15),
        ("person.all", "Ada", 0),
        ("person.all", "Bob", 15),
        ("sum", "1.234 EUR", 4),
        ("sums", "1.234 EUR", 4),
    ]
    assert "error" not in answer["evidence"][0]


def test_nothing_found_is_null() -> None:
    assert told() == {
        "fields": {"person": {"name": None, "all": []}, "sum": None, "sums": []},
        "evidence": [],
    }


def test_what_cannot_be_read_is_told_and_the_next_one_taken() -> None:
    answer = told(("12,50 EUR", "sum", 0.7), ("much", "sum", 0.9))
    assert answer["fields"]["sum"] == 12.5
    assert answer["fields"]["sums"] == [12.5]
    errors = [(e["field"], e.get("error")) for e in answer["evidence"]]
    assert errors == [
        ("sum", "'much' is no number"),
        ("sum", None),
        ("sums", None),
        ("sums", "'much' is no number"),
    ]


def test_fields_that_share_a_label_read_ten_thousand_texts_together() -> None:
    fields = tuple((Field((f"f{n}",), ("sum",), "number", many=True), "sum") for n in range(100))
    found = (*[("much", "sum", 0.5)] * 900, *[("12,50", "sum", 0.9)] * 100)
    answer = msgspec.msgpack.decode(Fields(TEXT, Found(found), fields)([]))
    assert len(answer["evidence"]) == 10_000
    assert answer["fields"]["f99"] == [12.5] * 100

"""Which fields a schema has, and what is said of one that cannot be filled in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.errors import InvalidRequest
from shoal.tasks.schema import Field, read_schema


def read(**properties: Any) -> list[Field]:
    return list(read_schema(json.dumps({"type": "object", "properties": properties})))


def test_fields_of_every_type() -> None:
    assert read(
        invoiceNumber={"type": "string", "title": "Number"},
        total={"type": "number", "description": "the sum to pay"},
        due={"type": "string", "format": "date", "x-label": "due date"},
        paid={"type": ["boolean", "null"]},
        kind={"enum": ["bill", "reminder"]},
        people={"type": "array", "items": {"type": "string"}, "description": "person"},
    ) == [
        Field(("invoiceNumber",), ("Number", "invoice number", "invoiceNumber"), "string"),
        Field(("total",), ("the sum to pay", "total"), "number"),
        Field(("due",), ("due date", "due"), "date"),
        Field(("paid",), ("paid",), "boolean"),
        Field(("kind",), ("kind",), "string", choices=("bill", "reminder")),
        Field(("people",), ("person", "people"), "string", many=True),
    ]


def test_objects_inside_objects_give_their_name() -> None:
    (city,) = read(billing={"type": "object", "properties": {"city_name": {"type": "string"}}})
    assert city == Field(("billing", "city_name"), ("billing city name", "city_name"), "string")
    assert city.name == "billing.city_name"


def test_what_pydantic_writes_is_read() -> None:
    """Parts that are referred to, and values that may be null."""
    schema = {
        "$defs": {"Party": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "type": "object",
        "required": ["seller"],
        "properties": {
            "seller": {"$ref": "#/$defs/Party"},
            "total": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        },
    }
    assert [field.name for field in read_schema(json.dumps(schema))] == ["seller.name", "total"]


SELF = {
    "$defs": {"A": {"$ref": "#/$defs/A"}},
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A"}},
}
SELF_OR_NULL = {
    "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}},
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A"}},
}
EITHER: dict[str, Any] = {"type": "string"}
for _ in range(400):
    EITHER = {"anyOf": [EITHER]}
#: Eight references in each of seven steps name two million fields.
MANY = {
    "$defs": {
        "A7": {"type": "string"},
        **{
            f"A{n}": {"properties": {f"p{k}": {"$ref": f"#/$defs/A{n + 1}"} for k in range(8)}}
            for n in range(7)
        },
    },
    "properties": {"a": {"$ref": "#/$defs/A0"}},
}
DEEP: dict[str, Any] = {"type": "string"}
for _ in range(10):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array", "items": {"type": "string"}}, "'the whole' is of type 'array'"),
        ({"type": "object"}, "'the whole' is an object without `properties`"),
        ({"properties": {"a": {"type": "strin"}}}, "'a' is of type 'strin' .did you mean 'string'"),
        ({"properties": {"a": {}}}, "'a' is of type None; known are string"),
        ({"properties": {"a": True}}, "'a' is no schema"),
        ({"properties": {"a": {"type": ["string", "number"]}}}, "'a' is of type ."),
        ({"properties": {"a": {"$ref": "other.json"}}}, "'a' refers to 'other.json'; only parts"),
        ({"properties": {"a": {"$ref": "#/$defs/B"}}}, "refers to '#/.defs/B', which is not there"),
        (SELF, "'a' refers to itself"),
        (SELF_OR_NULL, "'a' refers to itself"),
        ({"properties": {"a": EITHER}}, "'a' refers to itself, or says what it is in too many"),
        (MANY, "more than 256 fields; at most"),
        (DEEP, "lies deeper than 8 objects"),
        ({"properties": {" ": {"type": "string"}}}, "'the whole' has a property without a name"),
        (
            {"properties": {"a": {"type": "string", "format": "email"}}},
            "'a' has the format 'email'",
        ),
        ({"properties": {"a": {"enum": []}}}, "'a' has an `enum` of 0; 1 to 256"),
        ({"properties": {"a": {"enum": [*range(257)]}}}, "an `enum` of 257; 1 to 256"),
        ({"properties": {"a": {"type": "integer", "enum": ["b"]}}}, "'integer', and its .* 'b'"),
        ({"properties": {"a": {"type": "string", "pattern": "x"}}}, "'a' has `pattern`, which no"),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "number"}]}}}, "`anyOf`"),
        ({"properties": {"a": {"type": "array"}}}, "'a' is an array without `items`"),
        (
            {"properties": {"a": {"type": "array", "items": {"properties": {"b": {}}}}}},
            "'a' is a list of objects: which values belong together",
        ),
        ({"properties": {"a": {"enum": [[1]]}}}, "an `enum` that is no list of texts"),
        (
            {"properties": {f"a{n}": {"type": "string"} for n in range(257)}},
            "more than 256 fields; at most",
        ),
    ],
)
def test_what_is_refused(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        read_schema(json.dumps(schema))


def test_choices_without_a_type_have_their_own() -> None:
    fields = read(a={"enum": [1, 2]}, b={"enum": [1, 2.5]}, c={"enum": [True]}, d={"enum": ["x"]})
    assert [field.kind for field in fields] == ["integer", "number", "boolean", "string"]


def test_a_name_that_is_no_text_is_passed_over() -> None:
    (field,) = read(a={"type": "object", "title": 5, "properties": {"b": {"type": "string"}}})
    assert field.labels == ("a b", "b")


def test_no_json() -> None:
    with pytest.raises(InvalidRequest, match="schema is no JSON"):
        read_schema("{")

import pytest

from shoal.bench.schemas.drawn import schema
from shoal.bench.schemas.measure import mistake

NUMBERS = range(300)


def _keys(value: object) -> set[str]:
    match value:
        case dict():
            return set(value).union(*map(_keys, value.values()))
        case list():
            return set[str]().union(*map(_keys, value))
    return set()


def test_they_are_the_same_from_the_same_number_and_each_another() -> None:
    assert schema(7) == schema(7)
    assert len({repr(schema(number)) for number in NUMBERS}) == len(NUMBERS)


def test_they_are_sound_and_hold_all_that_callers_use() -> None:
    from jsonschema import Draft202012Validator

    found: set[str] = set()
    for number in NUMBERS:
        Draft202012Validator.check_schema(schema(number))
        found |= _keys(schema(number))
    assert found > {"$defs", "$ref", "anyOf", "const", "enum", "format", "pattern"}
    assert found > {
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "exclusiveMinimum",
        "multipleOf",
    }


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ('{"a": "2026-11-30"}', ""),
        ('{"a": "2026-02-30"}', "$.a: '2026-02-30' is not a 'date'"),
        ('{"a": 1}', "$.a: 1 is not of type 'string'"),
        ("{}", "$: 'a' is a required property"),
        ('{"a": "2026', "no JSON"),
    ],
)
def test_what_a_schema_does_not_allow_is_told_with_its_place(said: str, wrong: str) -> None:
    asked = {
        "type": "object",
        "properties": {"a": {"type": "string", "format": "date"}},
        "required": ["a"],
    }
    assert mistake(asked, said).startswith(wrong) and bool(mistake(asked, said)) == bool(wrong)

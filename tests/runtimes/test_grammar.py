"""Texts that are drawn from what a grammar allows are what it says; a bad one is refused with why."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import InvalidRequest
from shoal.runtimes.grammar import Grammar, Grammars
from tests.runtimes import letters

#: More than the tokenizer knows, as many models have it.
VOCABULARY = 300
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "kind": {"enum": ["a", "bc"]},
        "counts": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "sure": {"type": "boolean"},
    },
    "required": ["name", "kind", "counts", "sure"],
    "additionalProperties": False,
}


@pytest.fixture
def grammars(tmp_path: Path) -> Iterator[Grammars]:
    letters.save(tmp_path)
    grammars = Grammars(tmp_path / "tokenizer.json", VOCABULARY)
    yield grammars
    grammars.close()


def drawn(grammar: Grammar, seed: int, tokenizer_folder: Path, most: int = 400) -> str:
    """A text of tokens that are drawn from those allowed, likelier ones that close something."""
    tokenizer = letters.save(tokenizer_folder)
    rng, ids = random.Random(seed), []
    closing = {tokenizer.token_to_id(mark) for mark in '"]},1'}
    while not grammar.ended:
        allowed = grammar.allowed([letters.END]).nonzero()[0].tolist()
        assert allowed and max(allowed) < tokenizer.get_vocab_size()
        some = [token for token in allowed if token in closing] if rng.random() < 0.5 else []
        token = letters.END if letters.END in allowed else rng.choice(some or allowed)
        if token == letters.END:
            break
        ids.append(token)
        grammar.accept(token)
        assert len(ids) < most
    return str(tokenizer.decode(ids))


@pytest.mark.parametrize("seed", range(10))
def test_json_of_a_schema(grammars: Grammars, tmp_path: Path, seed: int) -> None:
    grammar = grammars.of("json_schema", json.dumps(SCHEMA)).result()
    said = json.loads(drawn(grammar, seed, tmp_path))
    assert list(said) == ["name", "kind", "counts", "sure"]
    assert len(said["name"]) <= 5 and said["kind"] in ("a", "bc") and len(said["counts"]) <= 3


@pytest.mark.parametrize("seed", range(5))
def test_any_object(grammars: Grammars, tmp_path: Path, seed: int) -> None:
    said = json.loads(drawn(grammars.of("json_object", "").result(), seed, tmp_path))
    assert isinstance(said, dict)


@pytest.mark.parametrize("seed", range(200))
def test_json_of_any_schema(grammars: Grammars, tmp_path: Path, seed: int) -> None:
    schema = any_schema(random.Random(seed), 3)
    text = drawn(grammars.of("json_schema", json.dumps(schema)).result(), seed, tmp_path, 6000)
    check(json.loads(text), schema)


def any_schema(rng: random.Random, depth: int) -> dict[str, Any]:
    """Of the keywords that people use, nested so deep."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "pattern"]
    match rng.choice(kinds if depth == 0 else ["object"] * 4 + ["array"] * 3 + ["anyOf"] + kinds):
        case "object":
            names = [f"k{n}" for n in range(rng.randrange(1, 4))]
            return {
                "type": "object",
                "properties": {name: any_schema(rng, depth - 1) for name in names},
                "required": [name for name in names if rng.random() < 0.7],
                "additionalProperties": False,
            }
        case "array":
            least = rng.randrange(3)
            items = any_schema(rng, depth - 1)
            return {"type": "array", "items": items, "minItems": least, "maxItems": least + 2}
        case "anyOf":
            return {"anyOf": [any_schema(rng, depth - 1) for _ in range(2)]}
        case "string":
            return {"type": "string", "minLength": rng.randrange(3), "maxLength": 8}
        case "integer":
            return {"type": "integer", "minimum": -5, "maximum": rng.randrange(100)}
        case "number":
            return {"type": "number", "exclusiveMinimum": 0, "maximum": 10}
        case "enum":
            return {"enum": rng.sample(["a", 1, None, True, "b c", 2.5], 3)}
        case "const":
            return {"const": rng.choice(["x", 7, False])}
        case "pattern":
            return {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,3}$"}
        case kind:
            return {"type": kind}


def check(value: Any, schema: dict[str, Any]) -> None:
    """Raises `AssertionError` where a value is none of a schema of `any_schema`."""
    if "anyOf" in schema:
        errors = [_wrong(value, one) for one in schema["anyOf"]]
        assert None in errors, errors
        return
    if "enum" in schema or "const" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        assert any(value == one and type(value) is type(one) for one in allowed)
        return
    match schema["type"]:
        case "object":
            assert set(schema["required"]) <= value.keys() <= schema["properties"].keys()
            for name, own in value.items():
                check(own, schema["properties"][name])
        case "array":
            assert schema["minItems"] <= len(value) <= schema["maxItems"]
            for own in value:
                check(own, schema["items"])
        case "string" if "pattern" in schema:
            assert re.fullmatch("[A-Z]{2}-[0-9]{1,3}", value)
        case "string":
            assert schema["minLength"] <= len(value) <= schema["maxLength"]
        case "integer":
            assert isinstance(value, int) and -5 <= value <= schema["maximum"]
        case "number":
            assert 0 < value <= 10
        case "boolean":
            assert isinstance(value, bool)
        case _:
            assert value is None


def _wrong(value: Any, schema: dict[str, Any]) -> Exception | None:
    try:
        check(value, schema)
    except (AssertionError, AttributeError, TypeError) as error:
        return error
    return None


def test_regular_expressions_and_lark(grammars: Grammars, tmp_path: Path) -> None:
    regex = r"[0-9]{3}-[a-z]{1,4}\."
    said = drawn(grammars.of("regex", regex).result(), 1, tmp_path)
    assert re.fullmatch(regex, said)
    lark = 'start: "yes" | "no" " "? start "."'
    said = drawn(grammars.of("lark", lark).result(), 2, tmp_path)
    assert re.fullmatch(r"(no ?)*yes\.*", said)


def test_a_text_may_end_only_where_its_grammar_may(grammars: Grammars) -> None:
    grammar = grammars.of("regex", "ab?").result()
    assert not grammar.allowed([letters.END, 7, 299])[[letters.END, 7, 299]].any()
    grammar.accept(_id("a"))
    assert grammar.complete and not grammar.ended
    allowed = grammar.allowed([7, 299])
    assert allowed.nonzero()[0].tolist() == sorted([7, 299, _id("b")])
    grammar.accept(_id("b"))
    assert grammar.ended


def test_texts_under_one_grammar_are_apart(grammars: Grammars) -> None:
    one, other = (grammars.of("regex", "ab").result() for _ in range(2))
    one.accept(_id("a"))
    assert other.allowed([])[_id("a")] and not other.allowed([])[_id("b")]
    assert grammars.of("regex", "ab").done(), "it was kept"


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("json_schema", '{"type": "strin"}', "strin"),
        ("json_schema", '{"type": "array", "uniqueItems": true}', "uniqueItems"),
        ("json_schema", '{"type": "string", "pattern": "("}', "unclosed group"),
        ("json_schema", "[1]", "object"),
        ("json_schema", "{", "EOF"),
        ("regex", "(", "unclosed group"),
        ("lark", "start: other", "other"),
        ("gbnf", "root ::= x", "no grammar of kind 'gbnf'"),
    ],
)
def test_a_bad_one_is_refused_with_why(grammars: Grammars, kind: str, text: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(says)):
        grammars.of(kind, text).result()


def test_one_that_lets_nothing_follow(grammars: Grammars) -> None:
    grammar = grammars.of("lark", f"start: <[{letters.END}]>").result()
    with pytest.raises(InvalidRequest, match="no token"):
        grammar.allowed([letters.END])


@pytest.mark.parametrize(("kind", "text"), [("regex", r"[^\s\S]"), ("lark", 'start: a\na: a "x"')])
def test_one_that_no_text_is_of(grammars: Grammars, kind: str, text: str) -> None:
    grammar = grammars.of(kind, text).result()
    with pytest.raises(InvalidRequest) as caught:
        grammar.allowed([letters.END])
    assert caught.value.message.endswith("may follow here, nor may the text end")
    assert "NoExtension" not in caught.value.message


def test_a_tokenizer_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(InvalidRequest, match=r"tokenizer\.json cannot be read"):
        Grammars(tmp_path / "tokenizer.json", 9).of("regex", "a").result()


def _id(letter: str) -> int:
    return letters.ALPHABET.index(letter) + 1

"""Steps of numbers that are refused would be compiled for long; those that people use are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import InvalidRequest
from shoal.runtimes.grammar import Grammars
from tests.runtimes import letters


def of(step: float, **more: Any) -> dict[str, Any]:
    return {"type": "number", "multipleOf": step, **more}


def each(*steps: float, **more: Any) -> dict[str, Any]:
    properties = {f"p{n}": of(step) for n, step in enumerate(steps)}
    return {"type": "object", "properties": properties, **more}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(of(999_983)),
        json.dumps(of(99.991)),
        json.dumps(of(10**18)).replace("0", "7"),
        json.dumps(of(99_991)).replace("mult", "\\u006dult"),
        json.dumps(each(*range(997, 1097))),
        json.dumps({"allOf": [of(773), of(769)]}),
        json.dumps(of(773, anyOf=[of(769)])),
        json.dumps(of(773) | {"$ref": "#/$defs/a", "$defs": {"a": of(769)}}),
        "start: %json " + json.dumps(of(999_983)),
    ],
)
def test_steps_of_many_remainders_are_refused_by_themselves(tmp_path: Path, text: str) -> None:
    letters.save(tmp_path)
    grammars = Grammars(tmp_path / "tokenizer.json", 300)
    kind = "json_schema" if text.startswith("{") else "lark"
    with pytest.raises(InvalidRequest, match=r"steps of numbers .*multipleOf"):
        grammars.of(kind, text).result()
    grammars.close()


@pytest.mark.parametrize(
    "schema",
    [
        each(0.01, 0.5, 1e6, 25, 7, 86_400, 1024),
        each(15, 60, anyOf=[each(0.25)]),
        {"description": 'say "multipleOf": 999983 in words'},
    ],
)
def test_those_that_people_use_are_kept(tmp_path: Path, schema: dict[str, Any]) -> None:
    letters.save(tmp_path)
    grammars = Grammars(tmp_path / "tokenizer.json", 300)
    assert not grammars.of("json_schema", json.dumps(schema)).result().ended
    grammars.close()

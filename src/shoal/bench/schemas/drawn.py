"""JSON schemas as callers of structured outputs write them, the same ones from the same seed.

Decides what a schema may hold: objects and arrays in each other, lengths, ranges, patterns, formats, choices,
references. Texts, arrays and digits have bounds, and nothing refers to itself: a small model goes on with what
has none until there is no room, and a text that is cut shows nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from shoal.bench.texts import text

Schema = dict[str, Any]

#: With `^` and `$`, as a pattern may match anywhere in a text (JSON Schema, Validation, 6.3.3).
_PATTERNS = (
    r"^[A-Z]{2}-[0-9]{3,5}$",
    r"^[a-z]+(_[a-z]{1,8}){0,2}$",
    r"^(red|green|blue)[0-9]?$",
    r"^#[0-9a-f]{6}$",
    r"^\+?[1-9]\d{6,11}$",
    r"^v(0|[1-9]\d?)\.(0|[1-9]\d?)$",
)
_FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "email")
#: Deeper ones are rare in practice, and a text of one takes thousands of tokens.
_DEEPEST = 3


def schema(number: int) -> Schema:
    """One schema, an object at its top as OpenAI has it."""
    return _Drawing(random.Random(f"schema {number}")).whole()


class _Drawing:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._defined: list[str] = []

    def whole(self) -> Schema:
        definitions: Schema = {}
        for name in {self._name(): None for _ in range(self._rng.choice((0, 0, 1, 2)))}:
            definitions[name] = self._any(_DEEPEST - 1)
            self._defined.append(name)
        whole = self._object(0)
        return {**whole, "$defs": definitions} if definitions else whole

    def _any(self, depth: int) -> Schema:
        kinds = [self._string, self._integer, self._number, self._choice, self._constant]
        drawn: list[Callable[[], Schema]] = [*kinds, lambda: {"type": "boolean"}]
        if self._defined:
            drawn += [lambda: {"$ref": f"#/$defs/{self._rng.choice(self._defined)}"}] * 2
        if depth < _DEEPEST:
            nested = [self._object, self._array, self._either]
            drawn += [lambda kind=kind: kind(depth + 1) for kind in nested] * 2
        return self._rng.choice(drawn)()

    def _object(self, depth: int) -> Schema:
        names = list(dict.fromkeys(self._name() for _ in range(self._rng.randint(1, 5))))
        return {
            "type": "object",
            "properties": {name: self._any(depth) for name in names},
            "required": [name for name in names if self._rng.random() < 0.7],
            "additionalProperties": False,
        }

    def _array(self, depth: int) -> Schema:
        least = self._rng.randint(0, 2)
        most = least + self._rng.randint(0, 3)
        return {
            "type": "array",
            "items": self._any(depth),
            "minItems": least,
            "maxItems": max(1, most),
        }

    def _either(self, depth: int) -> Schema:
        others = [self._any(depth) for _ in range(self._rng.randint(1, 2))]
        return {"anyOf": [*others, {"type": "null"}]}

    def _string(self) -> Schema:
        match self._rng.randrange(4):
            case 0:
                return {"type": "string", "pattern": self._rng.choice(_PATTERNS), "maxLength": 40}
            case 1:
                return {"type": "string", "format": self._rng.choice(_FORMATS), "maxLength": 40}
            case _:
                least = self._rng.randint(0, 8)
                most = least + self._rng.randint(0, 32)
                return {"type": "string", "minLength": least, "maxLength": most}

    def _integer(self) -> Schema:
        least = self._rng.randint(-1000, 1000)
        most = least + self._rng.choice((0, 1, 9, 4321))
        if self._rng.random() < 0.3:
            return {"type": "integer", "exclusiveMinimum": least, "exclusiveMaximum": most + 2}
        return {"type": "integer", "minimum": least, "maximum": most}

    def _number(self) -> Schema:
        least = self._rng.randint(-100, 100) / 4
        most = least + self._rng.choice((0.5, 50))
        return {"type": "number", "minimum": least, "maximum": most, "multipleOf": 0.25}

    def _choice(self) -> Schema:
        values: list[Any] = [self._name() for _ in range(self._rng.randint(1, 4))]
        if self._rng.random() < 0.3:
            values += [self._rng.randint(0, 99), None, True]
        return {"enum": list(dict.fromkeys(values))}

    def _constant(self) -> Schema:
        return {"const": self._rng.choice(['a "quoted" wörd', 42, -1.5, None, True, [1, "two"]])}

    def _name(self) -> str:
        return text(self._rng, 4).split()[0].strip(".").lower()

"""A JSON schema of a document's fields: which ones there are, of what type, and what each is called. Pure.

Taken is what can be read off a text: an object of texts, numbers, dates, yes or no, choices, lists of
those, and objects of those in turn. Whatever else a schema can say is refused by its name.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NoReturn

import msgspec

from shoal.errors import InvalidRequest
from shoal.spelling import nearest

Kind = Literal["string", "number", "integer", "boolean", "date"]
#: Values of a choice.
Choice = str | int | float | bool

#: Objects inside objects, and references and choices one behind the other: deeper ones are a
#: mistake, or a schema that refers to itself.
_DEEPEST = 8
#: Fields of a schema: each is looked for in every window of every text.
_MOST = 256
#: Choices of a field, with which every text that is found is compared: countries and currencies fit.
_MOST_CHOICES = 256

#: What says something of a field; what only describes it; what is resolved.
_KEYS = frozenset(
    {"type", "properties", "items", "enum", "format", "x-label", "description", "title", "anyOf"}
)
_IGNORED = frozenset(
    {"$schema", "$id", "$comment", "$defs", "definitions", "default", "examples"}
    | {"required", "additionalProperties", "nullable", "deprecated", "readOnly", "writeOnly"}
)
_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_FORMATS = ("date",)
#: Of each type, what its choices are as.
_CHOICES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


class Field(msgspec.Struct, frozen=True):
    """One value of a document, or a list of them.

    Attributes:
        path: names of properties, from the top.
        labels: what it may be called, the best one first.
        choices: its only values; none: any.
    """

    path: tuple[str, ...]
    labels: tuple[str, ...]
    kind: Kind
    many: bool = False
    choices: tuple[Choice, ...] = ()

    @property
    def name(self) -> str:
        """As answers and errors call it."""
        return ".".join(self.path)


def read_schema(text: str) -> tuple[Field, ...]:
    """Its fields, in its order. Raises `InvalidRequest` naming the place of what is not taken."""
    try:
        schema = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"schema is no JSON: {error}") from None
    fields = tuple(_Reader(schema).fields())
    if not fields:
        raise InvalidRequest("schema names no `properties`, so there is nothing to look for")
    return fields


class _Reader:
    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._left = _MOST

    def fields(self) -> list[Field]:
        root = self._resolved(self._root, ())
        if root.get("type") != "object":
            _refuse((), f"is of type {root.get('type')!r}; the whole must be an object")
        return self._of_object(root, (), ())

    def _of_object(
        self, schema: dict[str, Any], path: tuple[str, ...], above: tuple[str, ...]
    ) -> list[Field]:
        """above: what the objects around it are called."""
        if len(path) > _DEEPEST:
            _refuse(path, f"lies deeper than {_DEEPEST} objects")
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            _refuse(path, "is an object without `properties`")
        found: list[Field] = []
        for name, said in properties.items():
            at = (*path, name)
            if not name.strip():
                _refuse(
                    path, "has a property without a name, which nothing can be looked for under"
                )
            own = self._resolved(said, at)
            if own["type"] == "object":
                found += self._of_object(own, at, (*above, _words(_said(own, "title") or name)))
            else:
                found.append(self._field(own, at, above))
        return found

    def _field(
        self, schema: dict[str, Any], path: tuple[str, ...], above: tuple[str, ...]
    ) -> Field:
        if not self._left:  # a few references can name more than there is time to write down
            raise InvalidRequest(
                f"schema has more than {_MOST} fields; at most so many are looked for"
            )
        self._left -= 1
        own, many = schema, schema["type"] == "array"
        if many:
            if "items" not in schema:
                _refuse(path, "is an array without `items`")
            own = self._resolved(schema["items"], path)
            if own["type"] in ("array", "object"):
                what = f"{own['type']}s"
                _refuse(path, f"is a list of {what}: which values belong together, no span tells")
        kind = own["type"]
        form = own.get("format")
        if form is not None and form not in _FORMATS:
            _refuse(path, f"has the format {str(form)[:80]!r}; read is {', '.join(_FORMATS)}")
        if kind == "string" and form is not None:
            kind = "date"
        return Field(path, _labels(schema, own, path, above), kind, many, _choices(own, path))

    def _resolved(self, said: Any, path: tuple[str, ...]) -> dict[str, Any]:
        """A schema with one type, without references and without null."""
        for _ in range(_DEEPEST):
            if not isinstance(said, dict):
                _refuse(path, "is no schema, which is an object")
            if "$ref" in said:
                around = {key: value for key, value in said.items() if key != "$ref"}
                said = self._referred(said["$ref"], path) | around
            elif said.get("anyOf") is not None:
                said = _but_null(said["anyOf"], said, path)
            else:
                break
        else:
            _refuse(path, "refers to itself, or says what it is in too many steps")
        for key in said:
            if key not in _KEYS | _IGNORED:
                hint = nearest(key, _KEYS)
                _refuse(path, f"has `{key[:80]}`, which no span can be held to{hint}; leave it out")
        return said | {"type": _type(said, path)}

    def _referred(self, reference: Any, path: tuple[str, ...]) -> dict[str, Any]:
        found = self._root
        if not isinstance(reference, str) or not reference.startswith("#/"):
            _refuse(path, f"refers to {reference!r}; only parts of the schema itself are known")
        for step in reference[2:].split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            _refuse(path, f"refers to {reference!r}, which is not there")
        return found


def _but_null(either: Any, said: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """What is left of a choice between something and null."""
    kinds = either if isinstance(either, list) else []
    left = [one for one in kinds if not (isinstance(one, dict) and one.get("type") == "null")]
    if len(left) != 1 or not isinstance(left[0], dict):
        _refuse(path, "has `anyOf`, of which only one type or null is taken")
    return left[0] | {key: value for key, value in said.items() if key != "anyOf"}


def _type(said: dict[str, Any], path: tuple[str, ...]) -> str:
    kind = said.get("type")
    if isinstance(kind, list):
        left = [one for one in kind if one != "null"]
        kind = left[0] if len(left) == 1 else kind
    if kind is None:
        kind = "object" if "properties" in said else _type_of_choices(said.get("enum"))
    if kind not in _TYPES:
        known = ", ".join(_TYPES)
        _refuse(path, f"is of type {kind!r}{nearest(str(kind), _TYPES)}; known are {known}")
    return str(kind)


def _type_of_choices(choices: Any) -> str | None:
    """What all choices of an `enum` are; of different ones a text."""
    if not isinstance(choices, list):
        return None
    kinds = {type(choice) for choice in choices}
    return next((kind for kind, types in _CHOICES.items() if kinds <= {*types}), "string")


def _choices(own: dict[str, Any], path: tuple[str, ...]) -> tuple[Choice, ...]:
    """Those of an `enum`, each of the field's type."""
    choices = own.get("enum")
    if choices is None:
        return ()
    if not isinstance(choices, list) or not all(isinstance(c, Choice) for c in choices):
        _refuse(path, "has an `enum` that is no list of texts and numbers")
    if not 0 < len(choices) <= _MOST_CHOICES:
        _refuse(path, f"has an `enum` of {len(choices)}; 1 to {_MOST_CHOICES} are told apart")
    kind = own["type"]
    for choice in choices:
        if type(choice) not in _CHOICES[kind]:
            _refuse(path, f"is of type '{kind}', and its `enum` has {str(choice)[:80]!r}")
    return tuple(choices)


def _said(schema: dict[str, Any], key: str) -> str:
    """What it says in words; empty where it does not."""
    said = schema.get(key)
    return said.strip() if isinstance(said, str) else ""


def _labels(
    schema: dict[str, Any], own: dict[str, Any], path: tuple[str, ...], above: tuple[str, ...]
) -> tuple[str, ...]:
    """A name alone says too little inside an object: ``billing`` and ``city`` make *billing city*."""
    said = [_said(one, key) for key in ("x-label", "description", "title") for one in (schema, own)]
    named = " ".join((*above, _words(path[-1])))
    return tuple(dict.fromkeys([*filter(None, [*said, named]), path[-1]]))


def _words(name: str) -> str:
    """``invoiceNumber`` and ``invoice_number`` as words."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return re.sub(r"[\s_\-]+", " ", parted).strip().lower()


def _refuse(path: tuple[str, ...], why: str) -> NoReturn:
    named = ".".join(path)[:200] or "the whole"
    raise InvalidRequest(f"schema: '{named}' {why}")

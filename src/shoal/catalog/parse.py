"""A card file: YAML text <-> a `Card`, strictly.

Every error names the file, the line and, for an unknown key, the nearest known one. Knows
nothing of other cards and never opens the files a card points to.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml
from yaml.constructor import SafeConstructor

from shoal.catalog.card import Card
from shoal.catalog.check import problems
from shoal.errors import CardError
from shoal.spelling import nearest
from shoal.values import number

#: A card is a page of text. Aliases count each time they are used, so that a file of a few
#: lines cannot stand for millions of nodes.
MAX_BYTES = 256 * 1024
MAX_NODES = 10_000
MAX_DEPTH = 16

_Path = tuple[str, ...]

#: libyaml reads a page nine times as fast, which tells where the catalog has a hundred of them.
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_card(file: Path) -> Card:
    """Read one card file. A relative `source.dir` starts at the file's folder.

    Raises:
        CardError: the file cannot be read, or says something that a card cannot say.
    """
    try:
        data = file.read_bytes()
        if len(data) > MAX_BYTES:
            raise CardError(f"{file}: {len(data)} bytes; a card has at most {MAX_BYTES}")
        text = data.decode()
    except OSError as error:
        raise CardError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CardError(f"{file}: byte {error.start} is not UTF-8") from None
    card = parse_card(text, str(file))
    if card.source.dir is None:
        return card
    folder = (file.parent / Path(card.source.dir).expanduser()).resolve()
    source = msgspec.structs.replace(card.source, dir=str(folder))
    return msgspec.structs.replace(card, source=source)


def parse_card(text: str, where: str) -> Card:
    """Parse a card; `where` names the text in errors. Raises `CardError`."""
    root = _compose(text, where)
    if root is None:
        raise CardError(f"{where}: is empty; a card starts with `name:`")
    reader = _Reader(where)
    card: Card = reader.struct(root, Card, ())
    for path, problem in problems(card):
        reader.fail(reader.line(path), f"{'.'.join(path)}: {problem}")
    return card


def to_yaml(card: Card) -> str:
    """The card as text that `parse_card` reads back to an equal card."""
    fields = msgspec.to_builtins(card)
    text = _dump(fields, escape=False)
    # PyYAML writes these as they are and then reads them back as plain line breaks.
    return _dump(fields, escape=True) if set("\x85\u2028\u2029") & set(text) else text


def _dump(fields: Any, *, escape: bool) -> str:
    # Lists and the innermost maps on one line each, as cards are written by hand: a model of a
    # hundred languages would take a hundred lines.
    return yaml.safe_dump(
        fields, sort_keys=False, allow_unicode=not escape, width=100, default_flow_style=None
    )


def _compose(text: str, where: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise CardError(f"{where}{line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise CardError(f"{where}: not valid YAML: {error}") from None
    except RecursionError:
        raise CardError(f"{where}: nested too deeply") from None


class _Reader:
    """Walks the nodes of one file along the types of a card and remembers their lines."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._lines: dict[_Path, int] = {}
        self._nodes = 0
        self._constructor = SafeConstructor()

    def fail(self, line: int, text: str) -> NoReturn:
        raise CardError(f"{self._where}:{line}: {text}")

    def line(self, path: _Path) -> int:
        """The line of the deepest key of `path` that stands in the file."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def struct(self, node: yaml.Node, kind: type[Any], path: _Path) -> Any:
        hints, required = _keys(kind)  # type: ignore[arg-type]  # mypy takes no class for hashable
        values: dict[str, Any] = {}
        for key, child in self._items(node, path):
            if key not in hints:
                known = ", ".join(hints)
                hint = nearest(key, hints) or f"; known here: {known}"
                self.fail(self.line((*path, key)), f"unknown key '{key}'{hint}")
            values[key] = self.value(child, hints[key], (*path, key))
        if missing := [name for name in required if name not in values]:
            place = f"'{'.'.join(path)}'" if path else "the card"
            self.fail(self.line(path), f"{place} lacks {', '.join(missing)}")
        return kind(**values)

    def value(self, node: yaml.Node, hint: Any, path: _Path) -> Any:
        inner = _without_none(hint)
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            return self.struct(node, inner, path)
        if get_origin(inner) is dict and (of := get_args(inner)[1]) is not Any:
            return {k: self.value(v, of, (*path, k)) for k, v in self._items(node, path)}
        plain = self._plain(node, path)
        try:
            return msgspec.convert(plain, hint)
        except msgspec.ValidationError as error:
            text = _explain(error, node, inner)
            self.fail(self._line_of(node), f"{'.'.join(path)}: {text}")

    def _items(self, node: yaml.Node, path: _Path) -> Iterator[tuple[str, yaml.Node]]:
        line = self._enter(node, path)
        if not isinstance(node, yaml.MappingNode):
            place = f"'{'.'.join(path)}'" if path else "a card"
            self.fail(line, f"{place} must be a mapping, `key: value`")
        for key_node, child in node.value:
            key = self._key(key_node)
            if (*path, key) in self._lines:
                first = self._lines[(*path, key)]
                self.fail(self._line_of(key_node), f"'{key}' stands already in line {first}")
            self._lines[(*path, key)] = self._line_of(key_node)
            yield key, child

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.fail(self._line_of(node), "a key must be plain text")
        return str(node.value)

    def _plain(self, node: yaml.Node, path: _Path) -> Any:
        self._enter(node, path)
        match node:
            case yaml.MappingNode():
                return {k: self._plain(v, (*path, k)) for k, v in self._items(node, path)}
            case yaml.SequenceNode():
                return [self._plain(v, (*path, str(i))) for i, v in enumerate(node.value)]
            case _:
                return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            value = self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            problem = getattr(error, "problem", None) or error
            self.fail(self._line_of(node), f"cannot be read: {problem}")
        if not _is_as_written(value, node.value):
            self.fail(
                self._line_of(node),
                f"'{node.value}' is no plain number: write its digits, or quote it if it is text",
            )
        return value

    def _enter(self, node: yaml.Node, path: _Path) -> int:
        line = self._line_of(node)
        self._lines.setdefault(path, line)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self.fail(line, f"stands for more than {MAX_NODES} values; write it without aliases")
        if len(path) > MAX_DEPTH:
            self.fail(line, f"nested deeper than {MAX_DEPTH}")
        return line

    @staticmethod
    def _line_of(node: yaml.Node) -> int:
        return int(node.start_mark.line) + 1


@cache
def _keys(kind: type[Any]) -> tuple[dict[str, Any], list[str]]:
    """The types of a struct's fields by name, and which of them must be given."""
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    return get_type_hints(kind), required


def _is_as_written(value: Any, text: str) -> bool:
    """Whether a number is what a reader takes it for: YAML 1.1 has 010 for 8, 1:30 for 90."""
    match value:
        case bool():
            return True
        case int():
            return str(value) == text
        case float():
            return number(text) is not None
        case _:
            return True


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return next(kind for kind in get_args(hint) if kind is not type(None))
    return hint


def _explain(error: msgspec.ValidationError, node: yaml.Node, hint: Any) -> str:
    text = str(error).lower()
    if not isinstance(node, yaml.ScalarNode):
        return text
    if get_origin(hint) is Literal:
        choices = [str(choice) for choice in get_args(hint)]
        return f"'{node.value}' is none of {', '.join(choices)}{nearest(node.value, choices)}"
    quotable = hint is str and not node.tag.endswith(":null")
    return f'{text}; quote it: "{node.value}"' if quotable else text

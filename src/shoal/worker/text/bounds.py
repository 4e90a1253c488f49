"""How large what a chat template makes may become, and Jinja's filters within that.

Decides which filters and methods there are. Each is looked at before it makes anything: what is refused
afterwards has taken its memory and its time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2.exceptions import SecurityError, TemplateError
from jinja2.filters import do_batch, do_indent, do_round, do_slice, do_title

#: Characters that anything in a template may have, with all that is in it: more than the longest prompt of
#: any model.
MOST_LENGTH = 16 * 1024 * 1024
#: An entry of a list counts as so many: it takes as many bytes, and what goes over all of them ends in time.
ENTRY = 64
#: A bit of a number, likewise: multiplying takes time that grows with the square of them.
_BIT = 1000
#: No template aligns columns; one with such a width makes a gigabyte out of nothing.
_MOST_WIDTH = 1000
_WIDE = re.compile(r"\d{4}|\*|\{[^{}]*\{")
#: Of texts: they fill up to any width, put anything for a letter, or make bytes, which no prompt has.
_FILLING = frozenset(("ljust", "rjust", "center", "zfill", "expandtabs", "translate", "encode"))
#: Filters for pages, some of which take minutes for a long text.
_OF_PAGES = (
    "center",
    "pprint",
    "striptags",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
)


def weight(value: Any) -> int:
    """Characters of a value and of all that is in it, as often as it is there."""
    total, within = 0, [value]
    while within:
        some = within.pop()
        if isinstance(some, str | bytes):
            total += len(some)
        elif isinstance(some, list | tuple | dict):
            total += ENTRY * len(some)
            check_sum((total,))
            within += some
            if isinstance(some, dict):
                within += some.values()
    return total


def short(value: Any) -> Any:
    """The value. Raises `SecurityError`, as all of these, where it is too long."""
    check_sum((weight(value),))
    return value


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise SecurityError(f"{name} is not for chat templates")

    return refuse


def check_method(of: str | float, name: str, given: Sequence[Any]) -> None:
    """A method of a text or a number, and what it is called with."""
    if not isinstance(of, str) or name in _FILLING:
        raise SecurityError(f"{name} is not for chat templates")
    if name == "replace" and len(given) >= 2:
        _check_replace(of, given[0], given[1])
    elif name == "join" and given:
        check_sum(len(of) + weight(part) for part in given[0])


def check_product(left: Any, right: Any) -> None:
    """Before ``*``."""
    for some, times in ((left, right), (right, left)):
        if isinstance(some, str | list | tuple) and isinstance(times, int):
            check_sum((weight(some) * times,))
    if isinstance(left, int) and isinstance(right, int):
        check_sum(((left.bit_length() + right.bit_length()) * _BIT,))


def check_power(base: Any, exponent: Any) -> None:
    """Before ``**``."""
    if isinstance(base, int) and isinstance(exponent, int):
        check_sum((base.bit_length() * abs(exponent) * _BIT,))


def check_filled(form: str, mark: str, given: Iterable[Any]) -> None:
    """A text with places, of which each may have all that is given."""
    if _WIDE.search(form):
        raise SecurityError(f"it formats with a width over {_MOST_WIDTH}")
    check_sum((len(form), form.count(mark) * sum(map(weight, given))))


def _check_replace(of: str, old: Any, new: Any) -> None:
    old, new = str(old), str(new)
    check_sum((len(of), (of.count(old) if old else len(of) + 1) * len(new)))


def check_sum(lengths: Iterable[int]) -> None:
    """What will be so long together."""
    total = 0
    for length in lengths:
        total += length
        if total > MOST_LENGTH:
            raise SecurityError(f"it makes something longer than {MOST_LENGTH}")


def _join(value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
    parts = [str(part if attribute is None else part[attribute]) for part in value]
    check_sum(len(d) + len(part) for part in parts)
    return str(d).join(parts)


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    added = len(width) if isinstance(width, str) else width
    check_sum((len(text), (text.count("\n") + 1) * added))
    return do_indent(text, width, first, blank)


def _round(value: float, precision: int = 0, method: Any = "common") -> float:
    if abs(precision) > _MOST_WIDTH:
        raise SecurityError(f"it rounds to more than {_MOST_WIDTH} digits")
    return do_round(value, precision, method)


def _title(text: Any) -> str:
    check_sum((ENTRY * len(str(text)),))  # word by word
    return do_title(text)


def _batch(value: Iterable[Any], linecount: int, fill_with: Any = None) -> Any:
    check_sum((linecount * (ENTRY + weight(fill_with)),))
    return do_batch(value, linecount, fill_with)


def _slice(value: Any, slices: int, fill_with: Any = None) -> Any:
    check_sum((slices * ENTRY,))
    return do_slice(value, slices, fill_with)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    _check_replace(text, old, new)
    return str(text).replace(old, new, count)


def _format(form: str, *args: Any, **kwargs: Any) -> str:
    check_filled(form, "%", [kwargs or args])
    return str(form) % (kwargs or args)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own makes it safe for HTML, which no model was trained with."""
    if isinstance(indent, int) and indent > _MOST_WIDTH:
        raise SecurityError(f"it indents by more than {_MOST_WIDTH}")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    if indent is None:
        return encoder.encode(value)
    parts, length = [], 0
    for part in encoder.iterencode(value):  # a line may be as deep as lists are in each other
        length += len(part)
        check_sum((length,))
        parts.append(part)
    return "".join(parts)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


#: In place of Jinja's own.
FILTERS: dict[str, Callable[..., Any]] = {
    "batch": _batch,
    "format": _format,
    "indent": _indent,
    "join": _join,
    "replace": _replace,
    "round": _round,
    "slice": _slice,
    "title": _title,
    "tojson": _to_json,
    **{name: _refused(name) for name in _OF_PAGES},
}
GLOBALS: dict[str, Callable[..., Any]] = {
    "raise_exception": _raise,
    "strftime_now": _strftime_now,
}

"""Texts found in a document to values of a field's type. Pure.

Never guesses: what can be read in two ways, or in none, is a `ValueError` that says so.
"""

from __future__ import annotations

import re
from datetime import date
from difflib import get_close_matches
from typing import Literal

from shoal.tasks.schema import Choice, Field

#: What stands before the decimals of a document's numbers; None: nothing tells.
Mark = Literal[".", ","] | None

_NUMBER = re.compile(r"[-+\u2212]?\d(?:[\d.,'\u2019\u00a0\u202f ]*\d)?")
#: Spaces and apostrophes between groups of three digits.
_GAP = re.compile(r"(?<=\d)['\u2019\u00a0\u202f ](?=\d{3}(?!\d))")
#: Words that stand for a factor.
_FACTOR = re.compile(
    r"\d\s*(?:k|m|bn|tsd|mio|mrd|hundred|thousand|millions?|billions?|hundert|tausend|"
    r"million(?:en)?|milliarden?)\b",
    re.IGNORECASE,
)
#: A number that can be read in one way: one or two decimals, or both marks.
_DECIMALS = re.compile(r"(?<![\d.,])\d+([.,])\d{1,2}(?![\d.,]*\d)")
_BOTH = re.compile(r"\d([.,])\d{3}([.,])\d")

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar j\u00e4nner",
            "february feb februar",
            "march mar m\u00e4rz m\u00e4r mrz",
            "april apr",
            "may mai",
            "june jun juni",
            "july jul juli",
            "august aug",
            "september sep sept",
            "october oct oktober okt",
            "november nov",
            "december dec dezember dez",
        ),
        1,
    )
    for name in names.split()
}
_ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})")
_DIGITS = re.compile(r"(\d{1,2})\s?([./-])\s?(\d{1,2})\s?\2\s?(\d{4}|\d{2})")
_DAY_FIRST = re.compile(
    r"(\d{1,2})(?:\.|st|nd|rd|th)?\s*(?:of\s+)?([^\W\d_]+)\.?,?\s+(\d{4})", re.I
)
_MONTH_FIRST = re.compile(r"([^\W\d_]+)\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})", re.I)
#: Two digits of a year are of this century below it, else of the last one, as POSIX has it.
_CENTURY = 69

_YES = frozenset(["yes", "true", "y", "ja", "wahr", "j", "x", "✓", "✔", "☑", "☒"])
_NO = frozenset(["no", "false", "n", "nein", "falsch", "none", "keine", "kein", "✗", "☐"])

#: How like a choice a text must be: a slip in six letters, not another word.
_LIKE = 0.8
#: Characters of the longest text that is read as anything but a text: a date in words has thirty. What
#: is found may be a page, and some of the patterns take the square of its length.
_LONGEST = 256
#: From here on not every whole number is one in JSON, whose numbers are floats of 64 bits.
_MOST_EXACT = 2**53
#: Characters of a document whose numbers tell how it writes them: more than is read of most, 30 ms.
_TELLING = 1 << 18
#: Choices that an error names.
_NAMED = 8


def read(text: str, field: Field, mark: Mark) -> Choice:
    """The value that a text stands for. Raises `ValueError` saying why it stands for none."""
    if field.kind == "string" and not field.choices:
        return " ".join(text.split())
    if len(text) > _LONGEST:
        raise ValueError(f"has {len(text)} characters; at most {_LONGEST} are read as a value")
    if field.choices:
        return _choice(text, field, mark)
    match field.kind:
        case "number":
            return _number(text, mark)
        case "integer":
            return _integer(text, mark)
        case "boolean":
            return _boolean(text)
        case "date":
            return _date(text).isoformat()
    raise AssertionError("texts were read above")


def mark_of(document: str) -> Mark:
    """How a document writes decimals, as far as its numbers can be read in one way."""
    document = document[:_TELLING]
    marks = {found[1] for found in _DECIMALS.finditer(document)}
    marks |= {found[2] for found in _BOTH.finditer(document) if found[1] != found[2]}
    if len(marks) != 1:
        return None
    return "," if marks.pop() == "," else "."


def _number(text: str, mark: Mark) -> float:
    if _FACTOR.search(text):
        raise ValueError("has a word that stands for a factor")
    found = _NUMBER.findall(_GAP.sub("", text))
    if len(found) != 1:
        raise ValueError("is no number" if not found else f"has {len(found)} numbers")
    digits = found[0].replace("\u2212", "-")
    kinds = {c for c in digits if c in ".,"}
    if len(kinds) == 2:
        decimal = max(kinds, key=digits.rindex)
        return _joined(digits, decimal)
    if not kinds:
        return _joined(digits, "")
    (kind,) = kinds
    whole, *rest = digits.lstrip("+-").split(kind)
    if len(rest) > 1:
        return _joined(digits, "")
    if len(rest[0]) != 3 or len(whole) > 3 or whole == "0":
        return _joined(digits, kind)
    if mark is None:
        raise ValueError(f"may be {whole}{rest[0]} or {whole}.{rest[0]}")
    return _joined(digits, kind if kind == mark else "")


def _joined(digits: str, decimal: str) -> float:
    """Raises `ValueError` where groups are not of three digits."""
    whole, _, fraction = digits.partition(decimal) if decimal else (digits, "", "")
    groups = re.split(r"[.,]", whole.lstrip("+-"))
    if (len(groups) > 1 and any(len(group) != 3 for group in groups[1:])) or len(groups[0]) == 0:
        raise ValueError("is no number")
    if not (fraction == "" or fraction.isdigit()) or not "".join(groups).isdigit():
        raise ValueError("is no number")
    sign = "-" if whole.startswith("-") else ""
    return float(f"{sign}{''.join(groups)}.{fraction or 0}")


def _integer(text: str, mark: Mark) -> int:
    try:
        value = _number(text, mark)
    except ValueError as error:
        if not str(error).startswith("may be"):
            raise
        value = _number(text, "." if "," in text else ",")  # three digits and no fraction
    if not value.is_integer():
        raise ValueError("is no whole number")
    if abs(value) >= _MOST_EXACT:
        raise ValueError("has more digits than a number keeps; ask for it as a string")
    return int(value)


def _boolean(text: str) -> bool:
    word = text.strip(" .:[]()").casefold()
    if word in _YES or word in _NO:
        return word in _YES
    raise ValueError("says neither yes nor no")


def _date(text: str) -> date:
    if found := _ISO.search(text):
        return _day(*found.groups())
    if found := _DIGITS.search(text):
        first, between, second, year = found.groups()
        if between != "." and first != second and int(first) < 13 and int(second) < 13:
            raise ValueError("may have day or month first")
        if between != "." and int(second) > 12:
            first, second = second, first
        return _day(year, second, first)
    for found in _DAY_FIRST.finditer(text):
        if month := _MONTHS.get(found[2].casefold()):
            return _day(found[3], str(month), found[1])
    for found in _MONTH_FIRST.finditer(text):
        if month := _MONTHS.get(found[1].casefold()):
            return _day(found[3], str(month), found[2])
    raise ValueError("is no date")


def _day(year: str, month: str, day: str) -> date:
    number = int(year)
    if len(year) == 2:
        number += 2000 if number < _CENTURY else 1900
    try:
        return date(number, int(month), int(day))
    except ValueError:
        raise ValueError("is no day of the calendar") from None


def _choice(text: str, field: Field, mark: Mark) -> Choice:
    """The one that it says, or that it is nearest to."""
    named = {str(choice).casefold(): choice for choice in field.choices}
    said = " ".join(text.split()).casefold()
    if said in named:
        return named[said]
    if field.kind in ("number", "integer"):
        value = _number(text, mark)
        if value in field.choices:
            return int(value) if field.kind == "integer" else value
    near = get_close_matches(said, named, 2, _LIKE)
    if len(near) == 1 and field.kind == "string":
        return named[near[0]]
    more = ", …" if len(field.choices) > _NAMED else ""
    raise ValueError(f"is none of {', '.join(map(str, field.choices[:_NAMED]))}{more}")

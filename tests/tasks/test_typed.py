"""What texts of documents stand for, in German and English, and what is not guessed."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.tasks.schema import Field, Kind
from shoal.tasks.typed import Mark, mark_of, read


def value(kind: Kind, text: str, mark: Mark = None, choices: tuple[Any, ...] = ()) -> Any:
    return read(text, Field(("a",), ("a",), kind, choices=choices), mark)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("1.234,56 \u20ac", 1234.56),
        ("$1,234.56", 1234.56),
        ("EUR 12,5", 12.5),
        ("12.50", 12.5),
        ("1,234,567", 1234567),
        ("1.234.567", 1234567),
        ("1'234.50 CHF", 1234.5),
        ("1 234,50", 1234.5),
        ("1\u00a0234", 1234),
        ("-3,5 %", -3.5),
        ("\u22123", -3),
        ("0,125", 0.125),
        ("1234.567", 1234.567),
    ],
)
def test_numbers(text: str, number: float) -> None:
    assert value("number", text) == number


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.234", "may be 1234 or 1.234"),
        ("1,234", "may be 1234 or 1.234"),
        ("none", "is no number"),
        ("3 to 5", "has 2 numbers"),
        ("2 million", "stands for a factor"),
        ("2 Mio. Euro", "stands for a factor"),
        ("5k", "stands for a factor"),
        ("1,23,456.7", "is no number"),
    ],
)
def test_what_is_no_number(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        value("number", text)


def test_other_numbers_of_the_document_tell_what_a_mark_means() -> None:
    assert mark_of("Netto 12,50 EUR, am 12.10.2024") == ","
    assert mark_of("net 12.50") == "."
    assert mark_of("1.234,567 kg") == ","
    assert mark_of("12,50 and 12.50") is None
    assert mark_of("on 12.10.2024, 1.234") is None
    assert value("number", "1.234", ",") == 1234
    assert value("number", "1.234", ".") == 1.234


def test_whole_numbers() -> None:
    assert value("integer", "1.234") == value("integer", "1,234") == 1234
    assert value("integer", "12 pieces") == 12
    with pytest.raises(ValueError, match="no whole number"):
        value("integer", "1,5")


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-05",
        "5.3.2024",
        "05.03.24",
        "05. M\u00e4rz 2024",
        "March 5, 2024",
        "5th of March 2024",
        "Mar. 5th 2024",
        "2024/03/05",
        "am 5. Mrz 2024 in Bonn",
    ],
)
def test_dates(text: str) -> None:
    assert value("date", text) == "2024-03-05"


def test_more_dates() -> None:
    assert value("date", "25/12/2024") == value("date", "12/25/2024") == "2024-12-25"
    assert value("date", "05/05/1999") == "1999-05-05"
    assert value("date", "1.2.70") == "1970-02-01"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("05/03/2024", "may have day or month first"),
        ("31.2.2024", "no day of the calendar"),
        ("5 Fish 2024", "is no date"),
        ("yesterday", "is no date"),
    ],
)
def test_what_is_no_date(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        value("date", text)


def test_yes_and_no() -> None:
    assert value("boolean", "Ja") is value("boolean", "[x]") is value("boolean", "true.") is True
    assert value("boolean", "nein") is value("boolean", "No") is False
    with pytest.raises(ValueError, match="neither yes nor no"):
        value("boolean", "perhaps")


def test_choices() -> None:
    kinds = ("Credit note", "Invoice")
    assert value("string", "INVOICE", choices=kinds) == "Invoice"
    assert value("string", "invoices", choices=kinds) == "Invoice"
    assert value("integer", "19 %", choices=(7, 19)) == 19
    with pytest.raises(ValueError, match="is none of Credit note, Invoice"):
        value("string", "receipt", choices=kinds)
    with pytest.raises(ValueError, match="is none of 7, 19"):
        value("integer", "20 %", choices=(7, 19))


def test_few_of_many_choices_are_named() -> None:
    with pytest.raises(ValueError, match=r"is none of 0, 1, 2, 3, 4, 5, 6, 7, \u2026$"):
        value("integer", "300", choices=tuple(range(256)))


@pytest.mark.parametrize("kind", ["number", "integer", "boolean", "date"])
def test_a_page_is_no_value(kind: Kind) -> None:
    """Some of the patterns would take 14 s for it, in which the worker does nothing else."""
    with pytest.raises(ValueError, match="has 20000 characters; at most 256"):
        value(kind, "a" * 20_000)
    assert value("string", "a" * 20_000) == "a" * 20_000


def test_a_number_of_more_digits_than_one_keeps_is_not_made_up() -> None:
    assert value("integer", "9007199254740991") == 9007199254740991
    for text in ("9007199254740993", "1" * 30):
        with pytest.raises(ValueError, match="more digits than a number keeps"):
            value("integer", text)


def test_texts_are_on_one_line() -> None:
    assert value("string", "Ada\n  Lovelace") == "Ada Lovelace"

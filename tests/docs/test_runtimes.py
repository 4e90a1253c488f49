"""The conformance table has every check and every kind of runtime, and nothing in it failed."""

from __future__ import annotations

from pathlib import Path

from shoal.cli.docs_runtimes import TABLE, rendered
from shoal.runtimes.check.suite import CHECKS, Result
from shoal.runtimes.serve import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "runtimes.md"


def test_the_page_has_all_of_them() -> None:
    [table] = TABLE.findall(PAGE.read_text())
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    head, _, *body = [row for row in rows if row]
    assert head[2:] == [f"`{kind}`" for kind in KINDS], "write it anew: make conformance"
    assert [row[:2] for row in body] == [[check.name, check.about] for check in CHECKS]
    assert {cell for row in body for cell in row[2:]} <= {"passed", "–", "not run"}


def test_what_a_table_says() -> None:
    results = [
        Result(CHECKS[0].name, "passed", 0.1),
        Result(CHECKS[1].name, "failed", 0.1, "it counts nothing"),
        Result(CHECKS[2].name, "not applicable", 0.1, "it is too fast"),
    ]
    text = rendered({"one": results, "other": "its package is missing"})
    lines = text.splitlines()
    assert lines[2] == f"| hello | {CHECKS[0].about} | passed | not run |"
    assert lines[3].endswith("| **failed** | not run |")
    assert lines[4].endswith("| – | not run |")
    assert lines[-2:] == [
        "- `one`, 1 of 3 say nothing: it is too fast.",
        "- `other`, not run: its package is missing.",
    ]
    assert TABLE.fullmatch(text)

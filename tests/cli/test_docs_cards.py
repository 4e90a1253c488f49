from pathlib import Path

import msgspec

from shoal.catalog.resolve import Catalog
from shoal.cli.docs_cards import render, table

PAGE = Path(__file__).parents[2] / "docs" / "cards.md"


def test_the_page_says_what_the_cards_say() -> None:
    assert PAGE.read_text() == render(), "docs/cards.md is old: run `make docs`"


def test_whatever_a_card_says_of_itself_it_is_one_line_of_the_table() -> None:
    said = "reads `a|b`\nand more"
    card = msgspec.structs.replace(Catalog.load().cards()[0], description=said)
    *_, head, rule, line = "\n".join(table([card])).splitlines()
    assert line.endswith(r"| reads `a\|b` and more |")
    assert line.replace(r"\|", "").count("|") == head.count("|") == rule.count("|")

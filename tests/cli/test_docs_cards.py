from pathlib import Path

from shoal.cli.docs_cards import render

PAGE = Path(__file__).parents[2] / "docs" / "cards.md"


def test_the_page_says_what_the_cards_say() -> None:
    assert PAGE.read_text() == render(), "docs/cards.md is old: run `make docs`"

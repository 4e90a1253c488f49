from pathlib import Path

from shoal.cli.docs_settings import render

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_says_what_the_code_says() -> None:
    assert PAGE.read_text() == render(), "docs/settings.md is old: run `make docs`"

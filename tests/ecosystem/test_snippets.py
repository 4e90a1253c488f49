"""No snippet of the page is left unrun."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ecosystem.snippets import PAGE, SNIPPETS

TESTS = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize("heading", SNIPPETS)
def test_a_snippet_is_run(heading: str) -> None:
    assert f'"{heading}"' in TESTS


def test_all_code_is_found() -> None:
    assert len(SNIPPETS) == PAGE.read_text().count("```python")

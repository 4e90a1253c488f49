"""Links between pages lead somewhere, and pages speak of commands that exist."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from shoal.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])

LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
COMMAND = re.compile(r"(?:^\$ (?:\.venv/bin/)?|`)shoal ([a-z]+)", re.MULTILINE)
TARGET = re.compile(r"(?:^\$ |`)make ([a-z]+)", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Headings as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {f"#{heading.replace(' ', '-')}" for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {path}, which does not exist"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {path} has no heading {anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    known = getattr(get_command(app), "commands")  # noqa: B009 - typer's type does not tell
    text = page.read_text()
    assert set(COMMAND.findall(text)) <= set(known)
    makefile = (ROOT / "Makefile").read_text()
    for target in TARGET.findall(text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"no `make {target}`"

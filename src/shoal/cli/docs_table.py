"""Rows of the tables in generated pages: whatever a cell says, it stays one."""

from __future__ import annotations


def row(*cells: str) -> str:
    """A line of a Markdown table; bars and line ends inside a cell would end it."""
    plain = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(plain)} |"

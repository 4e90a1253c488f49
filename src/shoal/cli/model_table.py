"""How models are listed: one line each, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from shoal.cli.output import print_json

if TYPE_CHECKING:
    from shoal.catalog.card import Card

#: So many language codes are shown; whoever wants all of them asks for JSON.
LANGUAGES_SHOWN = 4
#: Columns of a terminal from which on everything fits, and what a narrower one does without.
WIDE = 110
ONLY_WIDE = ("family", "tokens", "languages")
#: Width of lines that no terminal shows: a model is one line, for grep and its like.
PIPED = 180


class Entry(msgspec.Struct, frozen=True):
    """One model.

    Attributes:
        gives: what it gives for its tasks, or how: `dense`, `cross-encoder`.
        unsaid: what its card leaves out, since no source that was read says it.
    """

    name: str
    aliases: list[str]
    tasks: list[str]
    gives: list[str]
    family: str
    dim: int | None
    max_tokens: int
    license: str | None
    languages: list[str]
    weights_mb: float | None
    cached: bool
    unsaid: list[str]


def list_cards(cards: list[Card], cache_dir: str | None, *, as_json: bool) -> None:
    """Print `cards` in their order."""
    entries = [_entry(card, cache_dir) for card in cards]
    if as_json:
        print_json(entries)
    else:
        _show(entries)


def _entry(card: Card, cache_dir: str | None) -> Entry:
    from shoal.catalog.fetch import cached
    from shoal.catalog.gaps import gaps
    from shoal.catalog.search import gives

    return Entry(
        name=card.name,
        aliases=card.aliases,
        tasks=card.tasks.names(),
        gives=gives(card),
        family=card.family,
        dim=_dim(card),
        max_tokens=card.max_tokens,
        license=card.license,
        languages=card.languages,
        weights_mb=card.memory.weights_mb,
        cached=cached(card, cache_dir) is not None,
        unsaid=gaps(card),
    )


def _dim(card: Card) -> int | None:
    encode = card.tasks.encode
    vector = encode and (encode.dense or encode.multivector)
    return vector.dim if vector else None


def _show(entries: list[Entry]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED)
    wide = console.width >= WIDE
    columns = [column for column in _COLUMNS if wide or column[0] not in ONLY_WIDE]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title, _ in columns:
        right = title in ("dim", "tokens", "MB")
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for entry in entries:
        table.add_row(*(escape(shown(entry)) for _, shown in columns))
    console.print(table)


def _languages(codes: list[str]) -> str:
    if len(codes) <= LANGUAGES_SHOWN:
        return " ".join(codes) or "–"
    return f"{' '.join(codes[: LANGUAGES_SHOWN - 1])} +{len(codes) - LANGUAGES_SHOWN + 1}"


def _megabytes(size: float | None) -> str:
    return "–" if size is None else f"{size:.0f}"


#: Title, and what of an entry stands below it.
_COLUMNS: list[tuple[str, Callable[[Entry], str]]] = [
    ("model", lambda entry: entry.name),
    ("gives", lambda entry: " ".join(entry.gives)),
    ("family", lambda entry: entry.family),
    ("dim", lambda entry: str(entry.dim or "–")),
    ("tokens", lambda entry: str(entry.max_tokens)),
    ("MB", lambda entry: _megabytes(entry.weights_mb)),
    ("languages", lambda entry: _languages(entry.languages)),
    ("licence", lambda entry: entry.license or "not stated"),
    ("here", lambda entry: "yes" if entry.cached else "no"),
]

"""The Debian Administrator's Handbook as a set for retrieval: titles ask for their sections.

Decides what of its pages is a section, and which sections English and German share. The book is by
Raphaël Hertzog and Roland Mas, GPL-2+ or CC BY-SA 3.0; it is fetched, and no part of it is here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import TypeVar

import msgspec

from shoal.bench.quality.debian import unpacked

T = TypeVar("T")

ENGLISH, GERMAN = "en-US", "de-DE"
#: Characters of a section that count: about 220 tokens in English and 300 in German, so that some
#: are longer than a model takes.
BODY = 1000
#: Shorter titles say nothing (`Note`), and shorter sections hold little but links.
_LEAST_TITLE, _LEAST_BODY = 7, 200

_HEADINGS = ("h1", "h2", "h3", "h4", "h5")
#: Computer output in no language; navigation and lists of what follows.
_SKIPPED_TAGS = ("pre", "script", "style")
_SKIPPED_CLASSES = ("docnav", "toc")
#: What stands before a title: `6.3.`, `Chapter 6.`, `Anhang A.`
_NUMBER = re.compile(r"^(?:(?:Chapter|Appendix|Kapitel|Anhang) \w+\.|[\d.]+)\s*")


class Section(msgspec.Struct, frozen=True):
    """A title, and the beginning of what stands below it, without the title itself."""

    title: str
    body: str


def handbook(count: int) -> dict[str, list[Section]]:
    """So many sections by language, the same ones in the same order, spread over the whole book.

    Raises:
        BenchFailed: the package cannot be fetched.
    """
    languages = (ENGLISH, GERMAN)
    folder = unpacked(
        "debian-handbook",
        "usr/share/doc/debian-handbook/html",
        lambda name: name.startswith(languages) and name.endswith(".html"),
    )
    found = {language: read(folder / language) for language in languages}
    shared = [name for name in found[ENGLISH] if name in found[GERMAN]]
    chosen = spread(shared, count)
    return {language: [found[language][name] for name in chosen] for language in languages}


def spread(things: Sequence[T], count: int) -> list[T]:
    """At most `count` of them, evenly far apart."""
    count = min(count, len(things))
    return [things[place * len(things) // count] for place in range(count)]


def read(folder: Path) -> dict[str, Section]:
    """The sections of all pages by their names, which are the same in all languages."""
    found: dict[str, Section] = {}
    for page in sorted(folder.glob("*.html")):
        for name, section in sections(page.read_text(encoding="utf-8")).items():
            found.setdefault(name, section)
    return found


def sections(page: str) -> dict[str, Section]:
    """Those of a page that are long enough, by the anchors of their titles."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    found: dict[str, Section] = {}
    for part in reader.parts:
        title = _NUMBER.sub("", _line(part.title))
        body = _line([_line(part.body).replace(title, " ") if title else ""])
        if part.name and len(title) >= _LEAST_TITLE and len(body) >= _LEAST_BODY:
            found.setdefault(part.name, Section(title, body[:BODY]))
    return found


def _line(pieces: list[str]) -> str:
    return " ".join("".join(pieces).split())


class _Part:
    def __init__(self, name: str) -> None:
        self.name = name
        self.title: list[str] = []
        self.body: list[str] = []


class _Reader(HTMLParser):
    """Text by the heading that it stands below."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[_Part] = []
        self._in_heading = False
        #: The tag whose content is skipped, and how many of its kind are open.
        self._skipped, self._depth = "", 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        classes = found.get("class", "").split()
        if self._depth:
            self._depth += tag == self._skipped
        elif tag in _SKIPPED_TAGS or any(name in classes for name in _SKIPPED_CLASSES):
            self._skipped, self._depth = tag, 1
        elif tag in _HEADINGS and "title" in classes:
            self.parts.append(_Part(found.get("id", "")))
            self._in_heading = True
        elif self._in_heading and tag == "a" and not self.parts[-1].name:
            self.parts[-1].name = found.get("id", "")

    def handle_endtag(self, tag: str) -> None:
        if self._depth:
            self._depth -= tag == self._skipped
        elif tag in _HEADINGS:
            self._in_heading = False
        if self.parts and not self._in_heading:
            self.parts[-1].body.append(" " if tag in ("div", "p", "li", "td", *_HEADINGS) else "")

    def handle_data(self, data: str) -> None:
        if self.parts and not self._depth:
            part = self.parts[-1]
            (part.title if self._in_heading else part.body).append(data)

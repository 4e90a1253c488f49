"""Receipts drawn line by line, German and English: what stands on them is known.

The font is DejaVu Sans, of matplotlib's package: the same outlines on every machine.
"""

from __future__ import annotations

import io
import random
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from shoal.bench.failure import BenchFailed
from shoal.installing import install

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

_FONT = "mpl-data/fonts/ttf/DejaVuSans.ttf"
_SHOPS = {
    "de": (
        ("Bäckerei Müller", "Straße der Einheit 5, 80331 München"),
        ("Getränke Groß GmbH", "Königsplatz 17, 04109 Leipzig"),
        ("SUPERMARKT MUSTER", "Hauptstraße 12, 10115 Berlin"),
    ),
    "en": (
        ("Corner Shop Ltd", "12 High Street, London"),
        ("Green Valley Farm", "Mill Lane, Leeds LS1 4AP"),
        ("The Old Bookshop", "48 Bridge Road, York"),
    ),
}
_GOODS = {
    "de": (
        "Brötchen",
        "Käse jung",
        "Äpfel süß",
        "Milch 1,5%",
        "Weißbrot",
        "Öl nativ",
        "Kaffee 500g",
    ),
    "en": ("Wholemeal bread", "Cheddar", "Apples", "Milk 2 pints", "Biscuits", "Olive oil", "Tea"),
}
_TOTAL = {"de": "Summe", "en": "Total"}
_THANKS = {"de": "Vielen Dank für Ihren Einkauf!", "en": "Thank you for your visit!"}
_MARGIN = 20


class Receipt(msgspec.Struct, frozen=True):
    """A PNG, and its rows from the top: one text, or one at the left and one at the right."""

    rows: list[list[str]]
    png: bytes

    @property
    def text(self) -> str:
        return "\n".join(" ".join(row) for row in self.rows)


def receipts(count: int) -> list[Receipt]:
    """The same ones every time. Raises `BenchFailed` where they cannot be drawn."""
    font = _font()
    return [_drawn(_rows(number), font, size=18 + 2 * (number % 5)) for number in range(count)]


def _rows(number: int) -> list[list[str]]:
    chance = random.Random(number)  # the same receipts for everyone
    language = ("de", "en")[number % 2]
    shop, street = chance.choice(_SHOPS[language])
    goods = chance.sample(_GOODS[language], chance.randint(2, 5))
    cents = [chance.randint(49, 1999) for _ in goods]
    day = f"{chance.randint(1, 28):02}.{chance.randint(1, 12):02}.2025"
    sold = [[good, _price(price, language)] for good, price in zip(goods, cents, strict=True)]
    total = [_TOTAL[language], _price(sum(cents), language)]
    return [[shop], [street], [day], *sold, total, [_THANKS[language]]]


def _price(cents: int, language: str) -> str:
    whole = f"{cents // 100}.{cents % 100:02}"
    return f"{whole.replace('.', ',')} €" if language == "de" else f"£{whole}"


def _drawn(rows: list[list[str]], font: Path, size: int) -> Receipt:
    from PIL import Image, ImageDraw, ImageFont

    face = ImageFont.truetype(str(font), size)
    pitch = round(size * 1.8)
    width = round(max(map(face.getlength, [row[0] for row in rows]))) + 8 * size
    image = Image.new("RGB", (width, pitch * len(rows) + 2 * _MARGIN), "white")
    pen = ImageDraw.Draw(image)
    for number, row in enumerate(rows):
        top = _MARGIN + number * pitch
        pen.text((_MARGIN, top), row[0], "black", face)
        if len(row) > 1:
            pen.text((width - _MARGIN - _length(face, row[1]), top), row[1], "black", face)
    file = io.BytesIO()
    image.save(file, "PNG")
    return Receipt(rows, file.getvalue())


def _length(face: FreeTypeFont, text: str) -> int:
    return round(face.getlength(text))


def _font() -> Path:
    found = find_spec("matplotlib")
    if find_spec("PIL") is None or found is None or found.origin is None:
        raise BenchFailed(
            "receipts are drawn with pillow and a font of matplotlib's, not installed here: "
            f"{install('media,sim')}"
        )
    return Path(found.origin).parent / _FONT

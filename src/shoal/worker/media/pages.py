"""Pages of PDF files as pictures, drawn by PDFium.

Decides how finely they are drawn. Nothing of a file is run: no scripts, no forms, no links.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import pypdfium2 as pdfium
from PIL import Image

from shoal.errors import InvalidItem
from shoal.worker.media.images import LONGEST_SIDE

T = TypeVar("T")

#: Fine enough to read footnotes, and what scans come in.
_DPI = 200
_POINTS_PER_INCH = 72
#: PDFium is one to a process: no two threads may be in it.
_pdfium = Lock()


def is_pdf(data: bytes) -> bool:
    """Whether this is meant as one; some writers put other bytes before the mark."""
    return b"%PDF-" in data[:1024]


def read_pages(
    data: bytes,
    max_pages: int,
    max_pixels: int,
    made: Callable[[Image.Image], T],
    counted: Callable[[int], None] = lambda pages: None,
) -> list[T]:
    """What is made of each page, RGB on white, no page of more pixels; one is held at a time.

    `counted`: told of how many there are before any is drawn; may refuse them.

    Raises:
        InvalidItem: damaged, locked by a password, without pages, or of more pages.
    """
    with _pdfium:
        try:
            document = pdfium.PdfDocument(data)
        except pdfium.PdfiumError as error:
            raise InvalidItem(f"this PDF is damaged, cut off or locked: {error}") from None
        try:
            if not 0 < (count := len(document)) <= max_pages:
                raise InvalidItem(
                    f"this PDF has {count} pages, and 1 to {max_pages} are taken "
                    "(`media_pages` of the worker); send a part of it"
                )
            counted(count)
            return [made(_drawn(document, number, max_pixels)) for number in range(count)]
        finally:
            document.close()


def _drawn(document: pdfium.PdfDocument, number: int, max_pixels: int) -> Image.Image:
    try:
        page = document[number]
        width, height = page.get_size()
        # A page may say that it is as large as a house, or as long as a river and as thin as a hair.
        area, side = max(1.0, width * height), max(1.0, width, height)
        scale = min(_DPI / _POINTS_PER_INCH, (max_pixels / area) ** 0.5, LONGEST_SIDE / side)
        image: Image.Image = page.render(scale=scale).to_pil()
        page.close()
    except (pdfium.PdfiumError, ValueError) as error:
        raise InvalidItem(f"page {number + 1} of this PDF cannot be drawn: {error}") from None
    return image.convert("RGB")

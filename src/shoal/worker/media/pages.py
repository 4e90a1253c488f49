"""Pages of PDF files as pictures. Nothing of a file is run: no scripts, no forms, no links."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PIL import Image

from shoal.errors import InvalidItem
from shoal.worker.media.drawer import drawer

T = TypeVar("T")


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
        InvalidItem: damaged, locked by a password, without pages, of more pages, or not drawn within
            the time that a file has.
    """
    with drawer.opened(data) as count:
        if not 0 < count <= max_pages:
            raise InvalidItem(
                f"this PDF has {count} pages, and 1 to {max_pages} are taken "
                "(`media_pages` of the worker); send a part of it"
            )
        counted(count)
        return [made(drawer.page(number, max_pixels)) for number in range(count)]

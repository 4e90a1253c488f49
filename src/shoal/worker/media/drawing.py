"""The process that draws pages of PDF files: a program of its own, which `drawer` starts.

PDFium cannot be stopped in the middle of a page, and 1 kB may keep it busy for as long as anyone
likes: it fills the page, compressed, some ten thousand times. So the kernel ends this process once a
file has had its time, and so does a fault in PDFium. Nothing of Shoal is imported: the program is
read by its path, and up in a tenth of a second.

From stdin come `OPEN` with a file, then the numbers of pages, then `SHUT`; to stdout go `Answer`s.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import struct
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pypdfium2 as pdfium

#: Of a request to open a file: seconds for it, seconds more for each of its pages, bytes that follow.
OPEN = struct.Struct("<ddQ")
#: Of a request for a page: its number, pixels at most, pixels of a side at most. No number: shut the file.
PAGE = struct.Struct("<qQQ")
SHUT = -1
#: Before each answer: what it is, and its bytes.
ANSWER = struct.Struct("<cQ")
#: The count of pages; a page, after width, height and bytes of a row; why there is none.
COUNT, PICTURE, REFUSED = b"n", b"p", b"e"
SHAPE = struct.Struct("<QQQ")

#: Fine enough to read footnotes, and what scans come in.
_DPI = 200
_POINTS_PER_INCH = 72
#: Address space: the largest picture that is taken is 0.2 GB, and PDFium may hold it a few times.
_MEMORY_BYTES = 2 << 30


def main(asked: BinaryIO, told: BinaryIO) -> None:
    """Answer until nobody asks any more."""
    import pypdfium2 as pdfium

    while header := asked.read(OPEN.size):
        file_s, page_s, size = OPEN.unpack(header)
        data = asked.read(size)
        signal.setitimer(signal.ITIMER_PROF, file_s)
        try:
            document = pdfium.PdfDocument(data)
        except pdfium.PdfiumError as error:
            _tell(told, REFUSED, str(error).encode())
            continue
        finally:
            del data
        count = len(document)
        left_s, _ = signal.getitimer(signal.ITIMER_PROF)
        signal.setitimer(signal.ITIMER_PROF, left_s + page_s * count)
        _tell(told, COUNT, struct.pack("<Q", count))
        while (wanted := PAGE.unpack(asked.read(PAGE.size)))[0] != SHUT:
            number, most, side = wanted
            _draw(document, number, most, side, told)
        document.close()
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def _draw(document: pdfium.PdfDocument, number: int, most: int, side: int, told: BinaryIO) -> None:
    import pypdfium2 as pdfium

    try:
        page = document[number]
        width, height = page.get_size()
        # A page may say that it is as large as a house, or as long as a river and as thin as a hair.
        area, longest = max(1.0, width * height), max(1.0, width, height)
        scale = min(_DPI / _POINTS_PER_INCH, (most / area) ** 0.5, side / longest)
        bitmap = page.render(scale=scale, rev_byteorder=True)
        shape = SHAPE.pack(bitmap.width, bitmap.height, bitmap.stride)
        _tell(told, PICTURE, shape, bitmap.buffer)
        bitmap.close()
        page.close()
    except (pdfium.PdfiumError, ValueError) as error:
        _tell(told, REFUSED, str(error).encode())


def _tell(told: BinaryIO, kind: bytes, *parts: Any) -> None:
    """`parts`: of bytes."""
    told.write(ANSWER.pack(kind, sum(map(len, parts))))
    for part in parts:
        told.write(part)
    told.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the worker's; this ends when that does
    with contextlib.suppress(ValueError, OSError):  # not every system has them
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(BrokenPipeError, struct.error):  # the worker is gone
        main(sys.stdin.buffer, sys.stdout.buffer)

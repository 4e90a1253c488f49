"""The worker's side of the process that draws pages: one file at a time, each within its time.

Decides how long a file may take, and what is told of one that takes longer, or takes the process down.
"""

from __future__ import annotations

import atexit
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

import numpy as np
from PIL import Image

from shoal.errors import InvalidItem
from shoal.worker.media import drawing
from shoal.worker.media.images import LONGEST_SIDE

#: Seconds of processor for a file, and for each of its pages: a page of a scan takes a tenth of one, a
#: large map two or three.
FILE_S, PAGE_S = 5.0, 2.0
_END_S = 5.0
#: How long an end waits for a page that is all but drawn.
_TURN_S = 0.1


class Drawer:
    """A process that draws, begun when it is first needed, and anew when one has ended."""

    def __init__(self) -> None:
        self._turn = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def opened(self, data: bytes) -> Iterator[int]:
        """The count of pages of a file, of which pages can be had until this is left.

        Raises `InvalidItem`: damaged, locked by a password, or not open in time.
        """
        with self._turn:
            self._begin()
            kind, told = self._ask(drawing.OPEN.pack(FILE_S, PAGE_S, len(data)), data)
            if kind == drawing.REFUSED:
                raise InvalidItem(f"this PDF is damaged, cut off or locked: {told.decode()}")
            try:
                (count,) = struct.unpack("<Q", told)
                yield count
            finally:
                with suppress(OSError):  # it is gone: who asked was told why
                    self._send(drawing.PAGE.pack(drawing.SHUT, 0, 0))

    def page(self, number: int, max_pixels: int) -> Image.Image:
        """A page, RGB on white. Raises `InvalidItem`: it cannot be drawn, or not in time."""
        kind, told = self._ask(drawing.PAGE.pack(number, max_pixels, LONGEST_SIDE))
        if kind == drawing.REFUSED:
            raise InvalidItem(f"page {number + 1} of this PDF cannot be drawn: {told.decode()}")
        width, height, row = drawing.SHAPE.unpack_from(told)
        rows = np.frombuffer(told, np.uint8, offset=drawing.SHAPE.size).reshape(height, row)
        return Image.fromarray(rows[:, : 3 * width].reshape(height, width, 3))

    def close(self) -> None:
        """End the process, whatever it draws; the next file begins another."""
        while not self._turn.acquire(timeout=_TURN_S):
            if (process := self._process) is not None:
                process.kill()
        try:
            self._end()
        finally:
            self._turn.release()

    def _begin(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._end()
        # By its path, and -P: neither Shoal nor what lies beside the program is imported.
        command = [sys.executable, "-P", str(Path(drawing.__file__))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def _end(self) -> int:
        """Its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for pipe in filter(None, (process.stdin, process.stdout)):
            with suppress(OSError):
                pipe.close()
        try:
            return process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _send(self, *parts: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            raise BrokenPipeError
        for part in parts:
            self._process.stdin.write(part)
        self._process.stdin.flush()

    def _ask(self, *parts: bytes) -> tuple[bytes, bytes]:
        """What the process answers. Raises `InvalidItem` where that takes it down."""
        try:
            self._send(*parts)
            kind, size = drawing.ANSWER.unpack(self._read(drawing.ANSWER.size))
            return kind, self._read(size)
        except (OSError, struct.error):
            raise _fatal(self._end()) from None

    def _read(self, size: int) -> bytes:
        if self._process is None or self._process.stdout is None:
            raise BrokenPipeError
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise BrokenPipeError
        return data


def _fatal(status: int) -> InvalidItem:
    if status == -signal.SIGPROF:
        return InvalidItem(
            f"this PDF takes too long to draw: {FILE_S:g} s of processor and {PAGE_S:g} s for each page "
            "are the most; send simpler pages, or pictures of them"
        )
    return InvalidItem(
        f"this PDF takes down what draws it (status {status}): it is damaged, or takes too much "
        "memory; send pictures of its pages"
    )


#: One to a worker: PDFium draws one page at a time.
drawer = Drawer()
atexit.register(drawer.close)

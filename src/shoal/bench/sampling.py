"""Samples something in a thread, again and again, while something else goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Sampler(Generic[T]):
    """Reads every `period_s` from entering to leaving; `samples` are (seconds since 1970, read)."""

    def __init__(self, read: Callable[[], T], period_s: float) -> None:
        self.samples: list[tuple[float, T]] = []
        self._read = read
        self._period_s = period_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Sampler[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._period_s):
            self.samples.append((time.time(), self._read()))

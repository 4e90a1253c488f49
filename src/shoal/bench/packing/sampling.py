"""Resident sets of runtime processes, sampled from `/proc` while something else goes on. Linux only."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from shoal.bench.runtime import alone
from shoal.wire.socket import AskStats, Done, Load, Loaded, Run, Stats

PERIOD_S = 0.1


class Sample(msgspec.Struct, frozen=True):
    """Bytes above those of an empty runtime, of each process, at `time` (seconds since 1970)."""

    time: float
    held_bytes: list[int]


def rss_bytes(pid: int) -> int:
    """Resident set of a process; 0 once it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


async def empty_bytes() -> int:
    """Resident set of a fake runtime that has computed and holds nothing to speak of."""
    options = {"inputs": "text", "bytes": 1, "holds": True}
    async with alone("fake") as runtime:
        await runtime.ask(Load("m", "", "fake", {"dense": {"dim": 8}}, options=options), Loaded)
        await runtime.ask(Run(1, "m", ["dense"], texts=["a text"]), Done)
        return (await runtime.ask(AskStats(), Stats)).rss_bytes


class Sampler:
    """Samples in a thread from entering to leaving.

    Args:
        pids: called for each sample, because processes may be started anew.
        empty_bytes: resident set of such a process without any model.
    """

    def __init__(self, pids: Callable[[], list[int]], empty_bytes: int) -> None:
        self.samples: list[Sample] = []
        self._pids = pids
        self._empty_bytes = empty_bytes
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(PERIOD_S):
            held = [max(0, rss_bytes(pid) - self._empty_bytes) for pid in self._pids()]
            self.samples.append(Sample(time.time(), held))

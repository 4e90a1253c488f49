"""Runtime processes that hold what they load, one loader and one device each, and fail as told.

What a process says reaches its worker only while it lives. `faults` are what the next loads come to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from shoal.core import events as ev
from shoal.errors import ErrorInfo

Key = tuple[str, str, str]  # worker, lane, kind
Fault = Literal["well", "slow", "larger", "out_of_memory", "broken", "dies", "hangs"]
START_S = 0.5
EVICT_S = 0.01
STOP_S = 0.2
LEAK_BYTES = 10**10


class Kind(msgspec.Struct, frozen=True):
    """A model as its runtime knows it; its files are broken on these workers."""

    name: str
    bytes: int
    load_s: float
    guess: int | None = None  # what it is thought to hold; 0: nobody knows
    min_replicas: int = 0
    kind: str = "fake"
    fetch_s: float = 0.0  # 0: its files are here at the start
    broken_on: tuple[str, ...] = ()


class Loading(msgspec.Struct, frozen=True):
    worker: str
    lane: str
    model: str
    at: float
    seconds: float


class Process(msgspec.Struct):
    """One process; the loader does one thing after the other, and nothing once it hangs."""

    up: bool = False
    held: dict[str, int] = {}
    loader_free_at: float = 0.0
    hangs: bool = False


class Runtimes:
    """All processes of a pool. `tell`: brings an event to a worker, at a time."""

    def __init__(
        self,
        kinds: dict[str, Kind],
        noise: Callable[[], float],
        tell: Callable[[float, str, Callable[[], ev.Event | None]], None],
    ) -> None:
        self._kinds = kinds
        self._noise = noise
        self._tell = tell
        self.processes: dict[Key, Process] = {}
        self.loads: list[Loading] = []
        self.faults: deque[Fault] = deque()
        self.full_batches = 0  # how many of the next batches are out of memory
        self.leaking = False

    def held(self, worker: str, lane: str) -> dict[str, int]:
        """What is in the memory of a lane."""
        return {
            model: size
            for (w, la, _), process in self.processes.items()
            if (w, la) == (worker, lane)
            for model, size in process.held.items()
        }

    def copies(self, model: str) -> int:
        return sum(model in process.held for process in self.processes.values())

    def lose(self, worker: str) -> None:
        for key in [key for key in self.processes if key[0] == worker]:
            del self.processes[key]

    def die(self, key: Key, now: float) -> None:
        self.processes.pop(key)
        self._tell(now, key[0], lambda: ev.RuntimeDied(key[1], key[2], "as told"))

    # --- what a worker tells them -------------------------------------------------------------------

    def start(self, key: Key, now: float) -> None:
        assert key not in self.processes, "started twice"
        process = self.processes[key] = Process()

        def up() -> ev.Event:
            process.up = True
            return ev.RuntimeStarted(key[1], key[2])

        self._say(now + START_S, key, up)

    def told(self, key: Key, do: ev.Instruction, now: float) -> None:
        """Of a process that died meanwhile its worker is about to hear."""
        if key not in self.processes:
            return
        match do:
            case ev.KillRuntime():
                self.die(key, now)
            case ev.StopRuntime():
                self._stop(key, now)
            case ev.AskStats():
                self._ask(key, now)
            case ev.Run():
                self._run(key, do, now)
            case ev.Load(_, model):
                self._load(key, model, now)
            case ev.Evict(_, model):
                self._evict(key, model, now)

    def _stop(self, key: Key, now: float) -> None:
        def stopped() -> ev.Event:
            del self.processes[key]
            return ev.RuntimeStopped(key[1], key[2])

        self._say(now + STOP_S, key, stopped)

    def _ask(self, key: Key, now: float) -> None:
        held = dict(self.processes[key].held)
        rss = 10 + sum(held.values()) + (LEAK_BYTES if self.leaking else 0)
        self._say(now + 1e-3, key, lambda: ev.StatsSeen(key[1], key[2], rss, held))

    def _run(self, key: Key, run: ev.Run, now: float) -> None:
        assert run.model in self.processes[key].held, "a batch of a model that is not there"
        if self.full_batches:
            self.full_batches -= 1
            full = ErrorInfo("out_of_memory", "as told")
            self._say(now + 1e-3, key, lambda: ev.BatchFailed(run.lane, run.batch, full))
        else:
            done = ev.Finished(run.lane, run.batch, run.predicted_s)
            self._say(now + run.predicted_s, key, lambda: done)

    def _evict(self, key: Key, model: str, now: float) -> None:
        def evicted() -> ev.Event:
            del self.processes[key].held[model]
            return ev.Evicted(key[1], model)

        self._load_next(key, EVICT_S, evicted, now)

    def _load(self, key: Key, model: str, now: float) -> None:
        process, kind = self.processes[key], self._kinds[model]
        assert process.up and model not in process.held, f"{model} is there"
        fault = self.faults.popleft() if self.faults else "well"
        seconds = kind.load_s * self._noise() * (5 if fault == "slow" else 1)
        self.loads.append(Loading(key[0], key[1], model, now, seconds))
        process.hangs = process.hangs or fault == "hangs"

        def ends() -> ev.Event | None:
            if fault == "dies":
                self.die(key, now + seconds)
                return None
            if fault in ("out_of_memory", "broken") or key[0] in kind.broken_on:
                full = fault == "out_of_memory"
                return ev.LoadFailed(key[1], model, "broken", out_of_memory=full)
            size = process.held[model] = kind.bytes * (3 if fault == "larger" else 2) // 2
            return ev.Loaded(key[1], model, size, seconds)

        self._load_next(key, seconds, ends, now)

    def _load_next(
        self, key: Key, seconds: float, done: Callable[[], ev.Event | None], now: float
    ) -> None:
        process = self.processes[key]
        if process.hangs:
            return
        process.loader_free_at = max(now, process.loader_free_at) + seconds
        self._say(process.loader_free_at, key, done)

    def _say(self, at: float, key: Key, says: Callable[[], ev.Event | None]) -> None:
        """If the process still lives by then."""
        process = self.processes[key]
        self._tell(at, key[0], lambda: says() if self.processes.get(key) is process else None)

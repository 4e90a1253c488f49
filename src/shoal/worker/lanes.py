"""The runtime processes of a worker's lanes: performs `StartRuntime`, `Fetch`, `Load`, `Run`.

It turns how processes start and end into events, as `hearing` does with what they say; what follows
from them is the core's decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from shoal.catalog.card import Card
from shoal.catalog.resolve import Catalog
from shoal.core import events as ev
from shoal.errors import ShoalError
from shoal.runtimes.link import RuntimeProcess
from shoal.runtimes.packages import missing
from shoal.runtimes.spec import RuntimeSpec
from shoal.settings import WorkerSettings
from shoal.telemetry import log
from shoal.telemetry.background import background
from shoal.wire.socket import AskStats, CancelBatch, Generate, Run, Unload
from shoal.worker.files import Fetches, guarded
from shoal.worker.hearing import Hearing
from shoal.worker.hears import Hears
from shoal.worker.holding import tensor_bytes
from shoal.worker.lanespec import LaneSpec
from shoal.worker.models import files_of, load_of, loaded_of, preparer_of
from shoal.worker.prepared import Preparer
from shoal.worker.probes import Probes
from shoal.worker.processor import processor_s

_log = log.get(__name__)

#: A runtime that was told to end has nothing to do any more.
STOP_GRACE_S = 5.0


class Lanes:
    """All runtime processes of this worker, one per lane and runtime kind.

    Args:
        hears: takes what comes back.
        before_load: awaited with the model's name before it is loaded: its place on the queue.
    """

    def __init__(
        self,
        specs: list[LaneSpec],
        catalog: Catalog,
        settings: WorkerSettings,
        hears: Hears,
        before_load: Callable[[str], Awaitable[None]],
    ) -> None:
        self.specs = {spec.id: spec for spec in specs}
        self.preparers: dict[str, Preparer] = {}
        self._catalog = catalog
        self._settings = settings
        self._hears = hears
        self._before_load = before_load
        self._probes = Probes()
        self._hearing = Hearing(hears, self._probes, self._forget)
        self._processes: dict[tuple[str, str], RuntimeProcess] = {}
        self._kinds: dict[tuple[str, str], str] = {}  # (lane, model) -> kind it is loaded in
        self._tasks: set[asyncio.Task[None]] = set()
        self._fetches = Fetches()

    def start_runtime(self, lane: str, kind: str) -> None:
        """Start a runtime process; `RuntimeStarted` or `RuntimeDied` follows."""
        background(self._start(lane, kind), self._tasks)

    def kill_runtime(self, lane: str, kind: str) -> None:
        """End a runtime process that hangs; `RuntimeDied` follows."""
        process = self._processes.get((lane, kind))
        if process is not None:
            _log.event("runtime_hangs", level="error", lane=lane, kind=kind, pid=process.pid)
            process.kill()

    def fetch(self, model: str, limit_s: float) -> None:
        """Have the files of a model here; `Fetched` or `FetchFailed` follows."""
        background(self._fetch(model, limit_s), self._tasks)

    async def _fetch(self, model: str, limit_s: float) -> None:
        card = self._catalog.card(model)
        spec = next(iter(self.specs.values()))  # of every lane: a worker schedules one kind
        if (lacking := missing(spec.profile(card).runtime)) is not None:
            self._hears.fetch_failed(model, lacking, unserved=True)
            return
        fetched = partial(self._fetched_bytes, card)
        try:
            tensors = await self._fetches.run(model, fetched, limit_s)
        except TimeoutError:
            reason = (
                f"its files did not come within {limit_s:.0f} s; fetch them ahead with "
                f"`shoal models pull {model}`"
            )
            self._hears.fetch_failed(model, reason)
        except ShoalError as error:
            self._hears.fetch_failed(model, error.message)
        else:
            self._hears.emit(ev.Fetched(model, tensors))

    def _fetched_bytes(self, card: Card) -> int:
        """Fetch; bytes of its tensors as the first lane loads them. Raises `SourceError`."""
        spec, folder = next(iter(self.specs.values())), files_of(card, self._settings)
        profile = spec.profile(card)
        loaded = loaded_of(card, folder, profile, self._settings)
        return tensor_bytes(loaded, profile, spec.device)

    def load(self, lane: str, model: str) -> None:
        """Read the tokenizer, load; `Loaded` or `LoadFailed` follows."""
        kind = self.specs[lane].profile(self._catalog.card(model)).runtime
        self._kinds[lane, model] = kind
        background(self._load(lane, model, self._processes[lane, kind]), self._tasks)

    def evict(self, lane: str, model: str) -> None:
        """Let go of a model; `Evicted` follows, or `RuntimeDied` if its process ends first."""
        process = self._processes.get((lane, self._kinds[lane, model]))
        if process is not None:
            process.send(Unload(model))

    def _forget(self, lane: str, model: str) -> None:
        """Its tokenizer goes with the last copy: some take a hundred megabytes of this process."""
        self._kinds.pop((lane, model), None)
        if not any(other == model for _, other in self._kinds):
            self.preparers.pop(model, None)

    def ask_stats(self, lane: str, kind: str) -> None:
        """Ask a runtime process what it holds; `StatsSeen` follows."""
        process = self._processes.get((lane, kind))
        if process is not None:
            process.send(AskStats())

    def ask_processor(self, lane: str, kind: str) -> None:
        """Read the processor time of a runtime process; `ProcessorSeen` follows, if it can be."""
        process = self._processes.get((lane, kind))
        if process is not None:
            background(self._ask_processor(lane, kind, process), self._tasks)

    async def _ask_processor(self, lane: str, kind: str, process: RuntimeProcess) -> None:
        used_s = await processor_s(process.pid)
        if used_s is not None and self._processes.get((lane, kind)) is process:
            self._hears.emit(ev.ProcessorSeen(lane, kind, used_s))

    def stop_runtime(self, lane: str, kind: str) -> None:
        """End a runtime process gracefully; `RuntimeStopped` follows."""
        process = self._processes.get((lane, kind))
        if process is not None:
            background(self._stop(lane, kind, process), self._tasks)

    async def _stop(self, lane: str, kind: str, process: RuntimeProcess) -> None:
        await process.stop(STOP_GRACE_S)
        self._processes.pop((lane, kind), None)
        _log.event("runtime_stopped", lane=lane, kind=kind, pid=process.pid)
        self._hears.emit(ev.RuntimeStopped(lane, kind))

    def end(self, lane: str, model: str | None, batch: int) -> None:
        """Have a sequence of this model ended; without one it ended by itself."""
        process = None if model is None else self._processes.get((lane, self._kinds[lane, model]))
        if process is not None:
            process.send(CancelBatch(batch))

    def run(self, lane: str, run: Run | Generate) -> None:
        """Send a batch, or a sequence; a process that died meanwhile has its `RuntimeDied` on the way."""
        process = self._processes.get((lane, self._kinds[lane, run.model]))
        if process is not None:
            process.send(run)

    def computed_at(self, lane: str) -> float:
        """When the lane last answered a forward pass; minus infinity if it never did."""
        return self._hearing.computed_at.get(lane, float("-inf"))

    async def probe(self, lane: str, model: str) -> None:
        """A forward pass of one short item, straight to the runtime. Raises `Unavailable`."""
        card, preparer = self._catalog.card(model), self.preparers[model]
        await self._probes.ask(card, preparer, lambda run: self.run(lane, run))

    async def stop(self, grace_s: float) -> None:
        """End all processes; `grace_s` as `RuntimeProcess.stop` takes it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(process.stop(grace_s) for process in self._processes.values()))

    async def _start(self, lane: str, kind: str) -> None:
        spec = self.specs[lane]
        process = RuntimeProcess(
            RuntimeSpec(kind, spec.device, spec.threads),
            lambda message: self._hearing.heard(lane, kind, message),
            lambda code, tail: self._exited(lane, kind, code, tail),
        )
        try:
            await process.start()
        except ShoalError as error:
            _log.event(
                "runtime_start_failed", level="error", lane=lane, kind=kind, error=str(error)
            )
            self._hears.runtime_died(lane, kind, error.message)
            return
        self._processes[lane, kind] = process
        _log.event("runtime_started", lane=lane, kind=kind, pid=process.pid, device=spec.device)
        sharing = sum(other.device == spec.device for other in self.specs.values())
        share = process.hello.device_bytes // (sharing * self._settings.workers)
        self._hears.emit(ev.RuntimeStarted(lane, kind, share))

    def _exited(self, lane: str, kind: str, code: int, tail: str) -> None:
        self._processes.pop((lane, kind), None)
        last = tail.strip().splitlines()[-1] if tail.strip() else ""
        reason = f"exit status {code}" + (f": {last}" if last else "")
        _log.event("runtime_died", level="error", lane=lane, kind=kind, status=code, last=last)
        self._hears.runtime_died(lane, kind, reason)

    async def _load(self, lane: str, model: str, process: RuntimeProcess) -> None:
        """Load into this very process: if it dies meanwhile, its successor is told anew."""
        card = self._catalog.card(model)
        profile = self.specs[lane].profile(card)
        try:
            await self._before_load(model)
            folder = await asyncio.to_thread(guarded, files_of, card, self._settings)
            if model not in self.preparers:
                inputs = process.hello.capabilities.inputs
                self.preparers[model] = await asyncio.to_thread(
                    guarded, preparer_of, card, folder, profile, inputs, self._settings
                )
            loaded = await asyncio.to_thread(
                guarded, loaded_of, card, folder, profile, self._settings
            )
        except ShoalError as error:
            self._hearing.load_failed(lane, model, error.message)
            return
        process.send(load_of(card, loaded, profile))

"""What is around one worker, as plain state: a broker, runtimes, gateways and other workers.

`Outside` carries out what the core says and asserts at once what may never be said. What happens
next, and in which order, is chosen by whoever drives it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.config import WorkerConfig
from shoal.core.models import ModelSpec
from shoal.core.pulling import MAX_PULL
from shoal.core.worker import WorkerCore
from shoal.errors import ErrorInfo
from shoal.values import TrafficClass, estimated_features

BUDGET = Budget(seconds=0.05, tokens=400, items=16)
LANES = ["a", "b"]
#: Two runtime kinds share each device; all models together do not fit.
SPECS = {
    name: ModelSpec(
        name, kind, 512, BUDGET, (1e-3, 1e-4, 0.0, 1e-5), bytes_estimate=size, load_s_estimate=0.5
    )
    for name, kind, size in [("pinned", "x", 40), ("warm", "x", 30), ("cold", "y", 50)]
}
#: One generates, in the same process as others: so many sequences at once on a lane.
SEQUENCES = 2
SPECS["chat"] = ModelSpec(
    "chat",
    "x",
    512,
    BUDGET,
    (1e-3, 1e-4, 0.0, 1e-5, 1e-3),
    bytes_estimate=20,
    load_s_estimate=0.5,
    work="generate",
    sequences=SEQUENCES,
)
LANE_BYTES = 100
#: An item of so many tokens kills its runtime.
POISON = 13
#: To one of so many a runtime answers with an error.
BAD = 7
LEAK_BYTES = 10**10
#: Rounds of an event loop that may follow one another at the same moment.
MOST_TICKS = 5
Process = tuple[str, str]  # lane, kind


@dataclass
class Work:
    """One published unit, from the queue until it ended."""

    head: ev.UnitHead
    lengths: list[int]
    of: list[int | None] = field(default_factory=list)
    here: bool = False
    prepared: bool = False
    answered: bool = False
    sent: bool = False  # an answer is on its way
    computed: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)

    def needless(self) -> set[int]:
        """What no answer needs any more: parts of a whole of which one failed."""
        if not self.of:
            return set()
        lost = {self.of[index] for index in self.failed}
        wholes = set(self.of) - {None}
        all_lost = None in lost or wholes <= lost
        return {index for index, whole in enumerate(self.of) if all_lost or whole in lost}


@dataclass
class Runtime:
    """One process: what it holds and was told, in order."""

    up: bool = False
    models: set[str] = field(default_factory=set)
    loads: deque[str] = field(default_factory=deque)
    evictions: deque[str] = field(default_factory=deque)
    runs: deque[ev.Run] = field(default_factory=deque)
    stopping: bool = False
    asked: bool = False


class Outside:
    """See the module; `tell` is the only way an event reaches the core."""

    def __init__(self) -> None:
        self.now = 100.0
        self.core = WorkerCore(
            WorkerConfig(
                LANES,
                list(SPECS.values()),
                pinned=["pinned"],
                worker="w",
                lane_bytes=dict.fromkeys(LANES, LANE_BYTES),
                cooldown_s=5.0,
            )
        )
        self.queue: dict[tuple[TrafficClass, str], list[str]] = {
            (klass, model): [] for klass in ("work", "bulk") for model in SPECS
        }
        self.units: dict[str, Work] = {}
        self.fate: dict[str, str] = {}
        self.pulls: dict[int, ev.Pull] = {}
        self.withdrawn: set[int] = set()
        self.preparing: list[str] = []
        self.processes: dict[Process, Runtime] = {}
        self.claiming: list[str] = []
        self.claimed: set[str] = set()
        self.cancelled: set[str] = set()
        self.unheard: set[str] = set()
        self.ended: set[int] = set()
        self.aside: Counter[str] = Counter()
        self.connected = True
        self.drained = False
        self.leaking = False
        self.tell(ev.Ticked())

    # --- in ---------------------------------------------------------------------------------------

    def tell(self, event: ev.Event) -> None:
        """Let the core react, carry out what it says, check what must hold always."""
        for instruction in self.core.handle(event, self.now):
            self.perform(instruction)
        self.check()

    def tick(self) -> None:
        """What a timer does: ring at once if it is due, and never in a circle."""
        for _ in range(MOST_TICKS):
            wake = self.core.next_wake(self.now)
            if wake is None or wake > self.now:
                return
            self.tell(ev.Ticked())
        raise AssertionError(f"wakes up for ever at {self.now}")

    # --- out --------------------------------------------------------------------------------------

    def perform(self, do: ev.Instruction) -> None:
        match do:
            case ev.Pull():
                self._pull(do)
            case ev.Withdraw(pull):
                self.withdrawn.add(pull)
            case ev.Prepare(unit):
                assert not self.held(unit).prepared and unit not in self.preparing
                self.preparing.append(unit)
            case ev.Run():
                self._run(do)
            case ev.End(lane, batch):
                assert any(
                    run.batch == batch and run.model == "chat" and run.lane == lane
                    for process in self.processes.values()
                    for run in process.runs
                ), "ends what does not run"
                assert batch not in self.ended, "ended twice"
                self.ended.add(batch)
            case ev.StartRuntime(lane, kind):
                assert (lane, kind) not in self.processes, "started twice"
                self.processes[lane, kind] = Runtime()
            case ev.KillRuntime(lane, kind) | ev.StopRuntime(lane, kind):
                self.processes[lane, kind].stopping = True
            case ev.AskStats(lane, kind):
                self.processes[lane, kind].asked = True
            case ev.AskProcessor(lane, kind):
                assert (lane, kind) in self.processes, "of one that is not there"
            case ev.Load(lane, model):
                self._load(lane, model)
            case ev.Evict(lane, model):
                self._evict(lane, model)
            case ev.Claim(model):
                self.claiming.append(model)
            case ev.Unclaim(model):
                self.claimed.discard(model)
            case ev.FailItem(unit, index, error):
                self.held(unit).failed.add(index)
                assert error.code != "dead_lettered" or self.aside[unit], "given up and not kept"
            case ev.SetAside(unit):
                assert not self.held(unit).answered
                self.aside[unit] += 1
            case ev.Reply(unit):
                self._reply(unit)
            case ev.Fail(unit, error):
                assert not self.held(unit).answered, f"{unit} answered twice"
                assert error.code != "dead_lettered" or self.aside[unit], "given up and not kept"
                self.held(unit).answered = self.held(unit).sent = True
            case ev.Return(unit):
                work = self.held(unit)
                assert not work.answered
                self._leave(unit)
                self.queue[work.head.klass, work.head.model].append(unit)
            case ev.Terminate(unit, reason):
                self._terminate(unit, reason)
            case ev.Forget(unit):
                assert self.held(unit).answered
                self._end(unit, "settled")

    def held(self, unit: str) -> Work:
        assert unit not in self.fate, f"{unit} ended already: {self.fate[unit]}"
        work = self.units[unit]
        assert work.here, f"{unit} is not here"
        return work

    def _pull(self, pull: ev.Pull) -> None:
        assert self.connected and not self.drained, "pulls that nobody can serve"
        assert 1 <= pull.count <= MAX_PULL
        wanted = {m for lane in self.core.lanes.values() for m in lane.resident}
        assert pull.model in wanted | self.claimed, f"pulls {pull.model}, which is not here"
        model = self.core.models[pull.model]
        if model.spec.sequences:
            free = sum(SEQUENCES - self._sequences(lane) for lane in LANES)
            assert pull.count <= free - len(model.shelf), "pulls more than it has places for"
        waiting_s = 0.0 if model.spec.sequences else model.waiting[pull.klass]
        assert waiting_s < len(LANES) * BUDGET.seconds, "pulls beyond its credit"
        assert pull.pull not in self.pulls
        self.pulls[pull.pull] = pull

    def _sequences(self, lane: str) -> int:
        """Those under way there."""
        runs = (r for (where, _), p in self.processes.items() if where == lane for r in p.runs)
        return sum(run.model == "chat" for run in runs)

    def _run(self, run: ev.Run) -> None:
        process = self.processes[run.lane, SPECS[run.model].kind]
        assert run.model in process.models, f"runs {run.model}, which is not resident"
        assert run.model not in process.evictions, "runs what it evicts"
        assert 1 <= len(run.items) <= BUDGET.items
        assert len({(i.unit, i.index) for i in run.items}) == len(run.items)
        running = {
            (i.unit, i.index) for p in self.processes.values() for r in p.runs for i in r.items
        }
        for item in run.items:
            work = self.held(item.unit)
            assert work.prepared and not work.answered
            assert item.index not in work.computed | work.failed, "computed twice"
            assert item.index not in work.needless(), "computed for nothing"
            assert (item.unit, item.index) not in running, "runs in two batches at once"
        if SPECS[run.model].sequences:
            assert len(run.items) == 1
            assert self._sequences(run.lane) < SEQUENCES, "more sequences than places"
        process.runs.append(run)

    def _load(self, lane: str, model: str) -> None:
        process = self.processes[lane, SPECS[model].kind]
        assert process.up and not process.stopping
        assert model not in process.models and model not in process.loads, "loaded twice"
        process.loads.append(model)

    def _evict(self, lane: str, model: str) -> None:
        process = self.processes[lane, SPECS[model].kind]
        assert model in process.models and model not in process.evictions
        assert model != "pinned", "evicts a pinned model"
        assert all(run.model != model for run in process.runs), "evicts a running model"
        process.evictions.append(model)

    def _reply(self, unit: str) -> None:
        work = self.held(unit)
        if not work.answered:
            done = work.computed | work.failed | work.needless()
            assert work.prepared and done >= {i for i, n in enumerate(work.lengths) if n}, (
                f"{unit} answered before it was computed"
            )
        work.answered = work.sent = True

    def _terminate(self, unit: str, reason: str) -> None:
        work = self.held(unit)
        match reason:
            case "cancelled":
                assert work.head.request in self.cancelled
            case "deadline":
                assert self.now >= work.head.deadline and not work.answered
            case "unheard":
                assert unit in self.unheard or self.now >= work.head.deadline
        self._end(unit, reason)

    def _end(self, unit: str, fate: str) -> None:
        self._leave(unit)
        self.fate[unit] = fate

    def _leave(self, unit: str) -> None:
        work = self.held(unit)
        work.here = work.prepared = work.sent = False
        work.computed, work.failed = set(), set()
        if unit in self.preparing:
            self.preparing.remove(unit)

    # --- always -----------------------------------------------------------------------------------

    def check(self) -> None:
        assert set(self.core.units._held) == {u for u, work in self.units.items() if work.here}
        assert len(self.pulls) <= 2 * len(self.queue) + len(self.withdrawn), "too many open pulls"
        for lane in LANES:
            held = sum(
                SPECS[model].bytes_estimate
                for (where, _), process in self.processes.items()
                if where == lane
                for model in [*process.models, *process.loads]
            )
            assert held <= LANE_BYTES, f"lane {lane} holds {held} bytes"
            assert len(self.core.lanes[lane].batches) <= 2
            assert len(self.core.lanes[lane].seats) == self._sequences(lane)
        for model in self.core.models.values():
            assert model.waiting_s >= 0 and model.preparing >= 0

    # --- what may happen next ---------------------------------------------------------------------

    def publish(
        self, head: ev.UnitHead, lengths: list[int], of: list[int | None] | None = None
    ) -> None:
        self.units[head.id] = Work(head, lengths, of or [])
        self.queue[head.klass, head.model].append(head.id)

    def make_head(
        self, model: str, lengths: list[int], request: str, budget_s: float, klass: TrafficClass
    ) -> ev.UnitHead:
        return ev.UnitHead(
            f"u{len(self.units)}",
            request,
            model,
            estimated_features(sum(lengths) * 4, len(lengths), longest=512),
            self.now + budget_s,
            klass,
            f"tenant of {request[0]}",
        )

    def serve(self, pull_id: int) -> None:
        """The broker gives a pull what there is, and ends it if that is all it asked for."""
        pull = self.pulls[pull_id]
        queue = self.queue[pull.klass, pull.model]
        if pull_id not in self.withdrawn:
            taken, self.queue[pull.klass, pull.model] = queue[: pull.count], queue[pull.count :]
            for position, unit in enumerate(taken):
                self.units[unit].here = True
                pending = len(queue) - position - 1
                self.tell(ev.Arrived(self.units[unit].head, pull_id, pending))
            if pull.standing and not taken:
                return
        self.end_pull(pull_id, found_all=not pull.standing)

    def end_pull(self, pull: int, *, found_all: bool = False, refused: bool = False) -> None:
        del self.pulls[pull]
        self.withdrawn.discard(pull)
        self.tell(ev.PullEnded(pull, found_all, refused))

    def deliver_again(self, pull_id: int) -> None:
        """The broker thinks that we lost a unit, though we still hold it."""
        pull = self.pulls[pull_id]
        held = (w.head for w in self.units.values() if w.here and w.head.model == pull.model)
        head = next((head for head in held if head.klass == pull.klass), None)
        if head is not None:
            self.tell(ev.Arrived(head, pull_id, 0))
            if pull.count == 1 and pull_id in self.pulls:
                self.end_pull(pull_id)

    def prepare(self) -> None:
        """The preparing thread reports all that it has done."""
        units, self.preparing = self.preparing, []
        for unit in units:
            work = self.units[unit]
            work.prepared = True
            work.failed = {index for index, tokens in enumerate(work.lengths) if tokens == 0}
        of = {unit: self.units[unit].of for unit in units if self.units[unit].of}
        self.tell(ev.Prepared([(unit, self.units[unit].lengths) for unit in units], of))

    def finish(self, process: Process) -> None:
        if any(item.tokens == POISON for item in self.processes[process].runs[0].items):
            self.die(process)
            return
        run = self.processes[process].runs.popleft()
        bad = tuple(place for place, item in enumerate(run.items) if item.tokens == BAD)
        for place, item in enumerate(run.items):
            work = self.units[item.unit]
            if work.here and run.batch not in self.ended:
                (work.failed if place in bad else work.computed).add(item.index)
        new_tokens = 10 if run.model == "chat" else 0
        self.tell(ev.Finished(run.lane, run.batch, run.predicted_s, bad, new_tokens))

    def fail(self, process: Process, code: str) -> None:
        run = self.processes[process].runs.popleft()
        self.tell(ev.BatchFailed(run.lane, run.batch, ErrorInfo(code, "as told")))

    def die(self, process: Process) -> None:
        del self.processes[process]
        self.tell(ev.RuntimeDied(*process, "exit status -9"))

    def start(self, process: Process) -> None:
        self.processes[process].up = True
        self.tell(ev.RuntimeStarted(*process))

    def load(self, process: Process) -> None:
        model = self.processes[process].loads.popleft()
        self.processes[process].models.add(model)
        self.tell(ev.Loaded(process[0], model, SPECS[model].bytes_estimate, 0.5))

    def fail_load(self, process: Process, *, out_of_memory: bool) -> None:
        model = self.processes[process].loads.popleft()
        self.tell(ev.LoadFailed(process[0], model, "as told", out_of_memory=out_of_memory))

    def evict(self, process: Process) -> None:
        model = self.processes[process].evictions.popleft()
        self.processes[process].models.discard(model)
        self.tell(ev.Evicted(process[0], model))

    def stop(self, process: Process) -> None:
        del self.processes[process]
        self.tell(ev.RuntimeStopped(*process))

    def stats(self, process: Process) -> None:
        runtime = self.processes[process]
        runtime.asked = False
        held = {model: SPECS[model].bytes_estimate for model in runtime.models}
        rss_bytes = 10 + sum(held.values()) + (LEAK_BYTES if self.leaking else 0)
        self.tell(ev.StatsSeen(*process, rss_bytes, held))

    def answer_claim(self, granted: bool) -> None:
        model = self.claiming.pop(0)
        if granted:
            self.claimed.add(model)
        self.tell(ev.Claimed(model) if granted else ev.ClaimRefused(model))

    def settle(self, unit: str) -> None:
        self.units[unit].sent = False
        self.tell(ev.Settled(unit))

    def unhear(self, unit: str) -> None:
        self.units[unit].sent = False
        self.unheard.add(unit)
        self.tell(ev.Unheard(unit))

    def lose_broker(self) -> None:
        self.connected = False
        self.pulls.clear()
        self.withdrawn.clear()
        for work in self.units.values():
            work.sent = False
        self.tell(ev.BrokerLost())

    def regain_broker(self) -> None:
        self.connected = True
        self.tell(ev.BrokerBack())

    def demand(self) -> None:
        waiting = {model: 5.0 for model in SPECS if self.queue["work", model]}
        bulk = {model: 5.0 for model in SPECS if self.queue["bulk", model]}
        self.tell(ev.DemandSeen("g", waiting, bulk))

    def advance(self, seconds: float) -> None:
        """Let time pass; timers ring when they are due."""
        end = self.now + seconds
        while (wake := self.core.next_wake(self.now)) is not None and wake < end:
            self.now = max(self.now, wake)
            self.tick()
        self.now = end
        self.tick()

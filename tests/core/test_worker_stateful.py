"""Every history of a worker that hypothesis can think of: no unit is lost or answered twice.

The invariants are in `outside.Outside`, checked after each step; here is what may happen.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from shoal.core import events as ev
from shoal.values import TrafficClass

from .outside import BAD, POISON, SPECS, Outside, Process, Runtime

MODELS = st.sampled_from(list(SPECS))
#: Which of the candidates, whatever their number.
PICK = st.integers(0, 30)
LENGTHS = st.lists(st.sampled_from([4, 4, 12, 60, 300, 0, BAD, POISON]), min_size=1, max_size=20)


class WorkerMachine(RuleBasedStateMachine):
    """One worker for as long as hypothesis likes; at the end all is mended and everything ends."""

    outside: Outside

    @initialize()
    def begin(self) -> None:
        self.outside = Outside()

    # --- gateways ---------------------------------------------------------------------------------

    @rule(
        model=MODELS,
        lengths=LENGTHS,
        large=st.sampled_from([False, False, True]),
        budget_s=st.sampled_from([60.0, 60.0, 60.0, 0.02]),
        klass=st.sampled_from(["work", "work", "bulk"]),
        count=st.sampled_from([1, 1, 1, 10]),
        parts=st.sampled_from([0, 0, 2, 5]),
        query=st.booleans(),
    )
    def publish(
        self,
        model: str,
        lengths: list[int],
        large: bool,
        budget_s: float,
        klass: TrafficClass,
        count: int,
        parts: int,
        query: bool,
    ) -> None:
        of: list[int | None] = [n // parts for n in range(len(lengths))] if parts else []
        if parts and query and len(lengths) > 1:
            of[-1] = None
        for _ in range(count):
            number = len(self.outside.units)
            request = f"large {number // 20}" if large else f"own {number}"
            head = self.outside.make_head(model, lengths, request, budget_s, klass)
            self.outside.publish(head, lengths, of)

    @precondition(lambda self: self.outside.units)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        requests = [work.head.request for work in self.outside.units.values()]
        request = requests[-1 - pick % len(requests)]
        self.outside.cancelled.add(request)
        self.outside.tell(ev.Cancelled([request]))

    @rule()
    def demand(self) -> None:
        self.outside.demand()

    @precondition(lambda self: self.sent())
    @rule(pick=PICK, outcome=st.sampled_from(["heard", "heard", "unheard", "lost"]))
    def reply(self, pick: int, outcome: str) -> None:
        unit = self.sent()[pick % len(self.sent())]
        match outcome:
            case "heard":
                self.outside.settle(unit)
            case "unheard":
                self.outside.unhear(unit)
            case "lost":
                self.outside.units[unit].sent = False

    # --- the broker -------------------------------------------------------------------------------

    @precondition(lambda self: self.outside.pulls)
    @rule(pick=PICK, outcome=st.sampled_from(["served", "served", "refused", "again"]))
    def pull(self, pick: int, outcome: str) -> None:
        pulls = list(self.outside.pulls)
        pull = pulls[pick % len(pulls)]
        match outcome:
            case "served":
                self.outside.serve(pull)
            case "refused":
                self.outside.end_pull(pull, refused=True)
            case "again":
                self.outside.deliver_again(pull)

    @rule()
    def broker(self) -> None:
        if self.outside.connected:
            self.outside.lose_broker()
        else:
            self.outside.regain_broker()

    @precondition(lambda self: self.outside.claiming)
    @rule(granted=st.booleans())
    def claim(self, granted: bool) -> None:
        self.outside.answer_claim(granted)

    # --- other workers ----------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(["w0", "x"]),
        models=st.none()
        | st.dictionaries(MODELS, st.sampled_from(["resident", "loading", "failed"])),
    )
    def peer(self, name: str, models: dict[str, str] | None) -> None:
        if models is None:
            self.outside.tell(ev.PeerLost(name))
            return
        seen = {
            model: ev.PeerModel(state, 1, SPECS[model].bytes_estimate, 0.5)
            for model, state in models.items()
        }
        self.outside.tell(ev.PeerSeen(name, seen))

    # --- runtimes ---------------------------------------------------------------------------------

    @precondition(lambda self: self.outside.preparing)
    @rule()
    def prepare(self) -> None:
        self.outside.prepare()

    @precondition(lambda self: self.processes(lambda p: bool(p.runs)))
    @rule(pick=PICK, outcome=st.sampled_from(["done", "done", "out_of_memory", "internal", "died"]))
    def batch(self, pick: int, outcome: str) -> None:
        process = self.one(pick, lambda p: bool(p.runs))
        match outcome:
            case "done":
                self.outside.finish(process)
            case "died":
                self.outside.die(process)
            case _:
                self.outside.fail(process, outcome)

    @precondition(lambda self: self.processes(lambda p: bool(p.loads)))
    @rule(pick=PICK, outcome=st.sampled_from(["done", "done", "out_of_memory", "broken", "died"]))
    def load(self, pick: int, outcome: str) -> None:
        process = self.one(pick, lambda p: bool(p.loads))
        match outcome:
            case "done":
                self.outside.load(process)
            case "died":
                self.outside.die(process)
            case _:
                self.outside.fail_load(process, out_of_memory=outcome == "out_of_memory")

    @precondition(lambda self: self.outside.processes)
    @rule(pick=PICK, dies=st.sampled_from([False, False, False, True]))
    def process(self, pick: int, dies: bool) -> None:
        """It does the next of the other things it was told, or dies."""
        process = self.one(pick, lambda p: True)
        runtime = self.outside.processes[process]
        if dies:
            self.outside.die(process)
        elif not runtime.up:
            self.outside.start(process)
        elif runtime.evictions:
            self.outside.evict(process)
        elif runtime.asked:
            self.outside.stats(process)
        elif ready_to_stop(runtime):
            self.outside.stop(process)

    @rule(on=st.booleans())
    def leak(self, on: bool) -> None:
        """From now on runtimes hold more than their models, or do not."""
        self.outside.leaking = on

    # --- time -------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 0.0005, 0.005, 0.05, 1.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.outside.advance(seconds)

    @rule()
    def go_on(self) -> None:
        """For a while everything works."""
        if not self.outside.connected:
            self.outside.regain_broker()
        for _ in range(4):
            self.settle_down()
            self.outside.demand()
            self.outside.advance(0.1)

    @precondition(lambda self: not self.outside.drained and len(self.outside.units) > 5)
    @rule()
    def drain(self) -> None:
        self.outside.drained = True
        self.outside.tell(ev.DrainBegan())

    # --- the end ----------------------------------------------------------------------------------

    def teardown(self) -> None:
        """All is well from now on: every unit must come to an end within two minutes."""
        if not hasattr(self, "outside"):
            return
        outside = self.outside
        outside.leaking = False
        if not outside.connected:
            outside.regain_broker()
        end = outside.now + 120.0
        while self.unfinished() and outside.now < end:
            self.settle_down()
            outside.demand()
            outside.advance(0.5)
        assert not self.unfinished(), f"never ended: {self.unfinished()}"
        for model in outside.core.models.values():
            assert not model.shelf and not model.shelf.suspects
            assert (model.waiting_s, model.preparing) == (0, 0)

    def unfinished(self) -> list[str]:
        outside = self.outside
        return [
            unit
            for unit, work in outside.units.items()
            if unit not in outside.fate and (work.here or not outside.drained)
        ]

    def settle_down(self) -> None:
        """Everything that was asked for happens, well, and in no particular hurry."""
        outside = self.outside
        while outside.claiming:
            outside.answer_claim(granted=True)
        for process in list(outside.processes):
            self.carry_on(process)
        for pull in list(outside.pulls):
            if pull in outside.pulls:
                outside.serve(pull)
        if outside.preparing:
            outside.prepare()
        for unit in self.sent():
            outside.settle(unit)

    def carry_on(self, process: Process) -> None:
        outside = self.outside
        runtime = outside.processes[process]
        if not runtime.up:
            outside.start(process)
        while runtime.runs:
            outside.finish(process)
            if outside.processes.get(process) is not runtime:
                return  # it was poison
        while runtime.evictions:
            outside.evict(process)
        while runtime.loads:
            outside.load(process)
        if runtime.asked:
            outside.stats(process)
        if ready_to_stop(runtime):
            outside.stop(process)

    # --- candidates -------------------------------------------------------------------------------

    def sent(self) -> list[str]:
        return [unit for unit, work in self.outside.units.items() if work.sent]

    def processes(self, fits: Callable[[Runtime], bool]) -> list[Process]:
        return [name for name, process in self.outside.processes.items() if fits(process)]

    def one(self, pick: int, fits: Callable[[Runtime], bool]) -> Process:
        found = self.processes(fits)
        return found[pick % len(found)]


def ready_to_stop(runtime: Runtime) -> bool:
    """It was told to stop and has nothing under way."""
    return runtime.stopping and not (runtime.runs or runtime.loads or runtime.evictions)


TestWorker = WorkerMachine.TestCase

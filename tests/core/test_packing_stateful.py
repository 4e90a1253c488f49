"""Every trouble of a pool that hypothesis can think of: everything asked for is served or refused.

The budgets, what may be evicted and what may be loaded are checked at every step by
`packing_world`; here is what may happen, and what must be true once all is well again.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from shoal.core.cooldowns import LONGEST_S
from shoal.core.eviction import PATIENCE_S
from shoal.core.hanging import LEAST_LIMIT_S
from shoal.core.processes import MAX_LOAD_CRASHES

from .packing_runtimes import Fault, Kind
from .packing_world import MB, Pool

LANE = 500 * MB
#: Two kinds of runtime, one model larger than any lane, ones that are thought smaller than they are.
KINDS = [
    Kind("pinned", 150 * MB, 0.5),
    Kind("kept", 100 * MB, 1.0, min_replicas=2),
    Kind("small", 40 * MB, 0.3),
    Kind("half", 200 * MB, 1.0, kind="other"),
    Kind("guessed", 220 * MB, 2.0, guess=150 * MB),
    Kind("large", 340 * MB, 4.0, kind="other"),
    Kind("fetched", 120 * MB, 1.0, fetch_s=20.0),
    Kind("unknown", 300 * MB, 2.0, guess=0),
    Kind("too large", 400 * MB, 1.0),
]
NAMES = st.sampled_from([kind.name for kind in KINDS])
COOLDOWN_S = 60.0
#: As often as a load may hang before it fails, and once more for another's turn before it.
SERVED_S = (MAX_LOAD_CRASHES + 1) * (LEAST_LIMIT_S + PATIENCE_S)
FAULTS: list[Fault] = ["slow", "larger", "out_of_memory", "broken", "dies", "hangs"]
PICK = st.integers(0, 30)


class PackingMachine(RuleBasedStateMachine):
    """Some workers of one or two lanes; at the end all is mended."""

    pool: Pool

    @initialize(workers=st.integers(1, 3), lanes=st.sampled_from([("a",), ("a", "b")]))
    def begin(self, workers: int, lanes: tuple[str, ...]) -> None:
        self.pool = Pool(
            KINDS, workers, LANE, pinned=("pinned",), lanes=lanes, cooldown_s=COOLDOWN_S
        )
        self.pool.refuses = True

    @rule(model=NAMES, count=st.sampled_from([1, 1, 5, 100]), over_s=st.sampled_from([0.0, 10.0]))
    def ask(self, model: str, count: int, over_s: float) -> None:
        for number in range(count):
            self.pool.request(self.pool.now + over_s * number / count, model)

    @rule(seconds=st.sampled_from([0.003, 0.1, 1.0, 5.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.pool.run_until(self.pool.now + seconds)

    # --- runtimes ---------------------------------------------------------------------------------

    @rule(faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=4))
    def loads_fail(self, faults: list[Fault]) -> None:
        self.pool.runtimes.faults.extend(faults)

    @rule(count=st.integers(1, 6))
    def batches_are_too_large(self, count: int) -> None:
        self.pool.runtimes.full_batches += count

    @precondition(lambda self: self.pool.runtimes.processes)
    @rule(pick=PICK)
    def process_dies(self, pick: int) -> None:
        processes = list(self.pool.runtimes.processes)
        self.pool.runtimes.die(processes[pick % len(processes)], self.pool.now)

    @rule(on=st.booleans())
    def leak(self, on: bool) -> None:
        self.pool.runtimes.leaking = on

    # --- workers and the broker -------------------------------------------------------------------

    @precondition(lambda self: len(self.pool.dead) < len(self.pool.cores) - 1)
    @rule()
    def worker_dies(self) -> None:
        self.pool.kill(next(w for w in self.pool.cores if w not in self.pool.dead))

    @rule(pick=PICK, seconds=st.sampled_from([0.5, 5.0, 12.0, 300.0]))
    def worker_is_stopped(self, pick: int, seconds: float) -> None:
        """By its machine: later its clock has jumped."""
        self.pool.freeze(list(self.pool.cores)[pick % len(self.pool.cores)], seconds)

    @rule(up=st.booleans())
    def broker(self, up: bool) -> None:
        self.pool.broker_up = up

    @rule(seconds=st.sampled_from([2.0, 10.0]))
    def pulses_are_lost(self, seconds: float) -> None:
        self.pool.deaf_until = self.pool.upset_at = self.pool.now + seconds

    # --- the end ----------------------------------------------------------------------------------

    def teardown(self) -> None:
        """All is well from now on."""
        if not hasattr(self, "pool"):
            return
        pool = self.pool
        pool.broker_up, pool.deaf_until = True, 0.0
        pool.runtimes.faults.clear()
        pool.runtimes.full_batches, pool.runtimes.leaking = 0, False
        pool.run_until(max([pool.now, *pool.frozen.values()]))
        end = pool.now + SERVED_S
        while pool.waiting and pool.now < end:
            pool.run_until(pool.now + 1.0)
        assert not pool.waiting, f"neither served nor refused: {pool.waiting}"
        self.settled()

    def settled(self) -> None:
        """What is pinned or kept comes back once no cooldown holds it; then nothing is loaded."""
        pool = self.pool
        end = pool.now + 2 * LONGEST_S
        while not self.complete() and pool.now < end:
            pool.run_until(pool.now + 10.0)
        assert self.complete(), "pinned or kept models are missing"
        self.use_small(30)
        loads = len(pool.loads)
        self.use_small(30)
        assert len(pool.loads) == loads, f"thrashes: {pool.loads[loads:]}"
        self.take_turns(30)

    def take_turns(self, seconds: int) -> None:
        """Of models in demand that do not fit together all are served, in turns."""
        pool = self.pool
        for _ in range(seconds):
            for model in ("half", "guessed", "unknown"):
                self.ask(model, 1, 0.0)
            pool.run_until(pool.now + 1.0)
        longest_s = 1.2 * max(kind.load_s for kind in KINDS)
        pool.run_until(pool.now + 3 * (PATIENCE_S + 2 * longest_s))
        assert not pool.waiting, f"their turn never came: {pool.waiting}"

    def complete(self) -> bool:
        pool = self.pool
        alive = [worker for worker in pool.cores if worker not in pool.dead]
        pinned = all(
            "pinned" in pool.held(worker, lane)
            for worker in alive
            for lane in pool.cores[worker].lanes
        )
        if any(pool.cores[worker].models["small"].state == "failed" for worker in alive):
            return False
        if any(process.hangs for process in pool.runtimes.processes.values()):
            return False
        return pinned and pool.runtimes.copies("kept") >= min(2, len(alive))

    def use_small(self, seconds: int) -> None:
        for _ in range(seconds):
            self.ask("small", 1, 0.0)
            self.pool.run_until(self.pool.now + 1.0)


PackingMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25)
TestPacking = PackingMachine.TestCase

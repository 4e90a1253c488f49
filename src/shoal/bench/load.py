"""Load over HTTP: what is sent, what comes back, and the process that does it.

Two ways to send. Closed loop: N connections, each sends its next request when its last one is
answered. Open loop: every request at its time, whether earlier ones were answered or not, so that a
server that falls behind meets a queue that grows. Request bytes are made beforehand, and nothing
here decides what is in them. The generator is `shoal.bench.generator`, in a process of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias

import msgspec

from shoal.bench.piped import Helper

Target: TypeAlias = tuple[str, int]
"""Host and port."""


class Load(msgspec.Struct, frozen=True, tag=True):
    """A closed loop. Requests are taken in turns by all connections, connections by all targets.

    Attributes:
        requests: whole HTTP/1.1 requests; all of them once, or again and again for `seconds`.
        keep: whether answers' bodies are wanted.
    """

    targets: list[Target]
    requests: list[bytes]
    connections: int
    seconds: float | None = None
    keep: bool = False


class Arrivals(msgspec.Struct, frozen=True, tag=True):
    """An open loop.

    Attributes:
        targets: of the gateways, taken in turns.
        due_s: seconds from the start, ascending; `which` of the requests is due then.
        patience_s: how long after the last one answers are waited for.
    """

    targets: list[Target]
    requests: list[bytes]
    due_s: list[float]
    which: list[int]
    patience_s: float


class Outcome(msgspec.Struct, frozen=True):
    """What came back.

    Attributes:
        began_at: seconds since 1970, to be compared with times in logs.
        seconds: from the first request to the last answer.
        latency_s: of each request, in the order of sending; None where no answer had status 200. In
            an open loop from the moment it was due, so that a generator or a server that stalls
            cannot hide it (coordinated omission: Tene, How NOT to Measure Latency, 2015).
        errors: status (or what went wrong on the connection) -> how often.
        late_s: the most that an open loop's generator itself was behind.
        bodies: of all requests, in their order, if they were kept; empty where one failed.
    """

    began_at: float
    seconds: float
    latency_s: list[float | None]
    errors: dict[str, int] = {}
    late_s: float = 0.0
    bodies: list[bytes] = []

    @property
    def answered(self) -> int:
        return sum(latency is not None for latency in self.latency_s)

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds

    @property
    def waited_s(self) -> list[float]:
        """`latency_s`, infinite where there was no answer."""
        return [math.inf if latency is None else latency for latency in self.latency_s]

    def answered_ms(self, share: float) -> float:
        """A percentile of those that were answered."""
        return 1e3 * percentile(sorted(s for s in self.latency_s if s is not None), share)


Generator: TypeAlias = Helper[Load | Arrivals, Outcome]


def generator() -> Generator:
    """A load generator in a process of its own."""
    return Helper("shoal.bench.generator", Outcome)


def ask_together(
    generators: Sequence[Generator], loads: Sequence[Load | Arrivals]
) -> list[Outcome]:
    """All loads at the same time, one by each generator."""
    with ThreadPoolExecutor(len(loads)) as pool:
        asking = [pool.submit(g.ask, load) for g, load in zip(generators, loads, strict=True)]
        return [one.result() for one in asking]


def post(
    path: str, body: bytes, content_type: str, accept: str | None = None, key: str | None = None
) -> bytes:
    """One POST as it goes over a connection; the answer is wanted in the same form, or as `accept`."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: {content_type}\r\n"
        f"Accept: {accept or content_type}\r\nContent-Length: {len(body)}\r\n"
        + (f"Authorization: Bearer {key}\r\n" if key else "")
        + "\r\n"
    )
    return head.encode() + body


def get(path: str) -> bytes:
    """One GET as it goes over a connection."""
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


def encode(
    model: str,
    items: Sequence[str | bytes],
    form: Literal["json", "msgpack"] = "msgpack",
    key: str | None = None,
) -> bytes:
    """A request to Shoal for the vectors of `items`."""
    encoder = msgspec.json if form == "json" else msgspec.msgpack
    body = encoder.encode({"items": items})
    return post(f"/v1/encode/{model}", body, f"application/{form}", key=key)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Nearest-rank percentile of ascending values; not a number if there are none."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

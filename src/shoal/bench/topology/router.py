"""A push router: an ordinary gateway whose units go to the queue of one worker each.

Every pushed worker is an ordinary worker in a pool of its own, so that its pool's subjects are its
private queue. All that differs from the gateway is the connection: it puts each unit into the pool
that the policy picks, and shows the gateway all those pools as its own one. Queue lengths are what
the broker holds of each pool, waiting and under way alike, asked for every 100 ms; a router adds what
it has sent since then itself. Units are routed one by one, which is kinder to push than routing
whole requests.

    python -m shoal.bench.topology.router power-of-two 0 w0 w1 …
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import msgspec

from shoal.bench.topology.policies import Name, policy
from shoal.broker.base import Handler
from shoal.broker.connection import Connection
from shoal.errors import Unavailable
from shoal.gateway.main import run
from shoal.settings import GatewaySettings, from_environment, load
from shoal.telemetry.background import background
from shoal.values import TrafficClass
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import WorkerPulse, decode_queue

#: How old a router's view of the queues may be. Kubernetes and Envoy report loads every second or
#: more; 100 ms is generous.
REPORT_S = 0.1
_CLASS: TrafficClass = "work"


class _State(msgspec.Struct, frozen=True):
    subjects: dict[str, int] = {}


class _Stream(msgspec.Struct, frozen=True):
    state: _State = _State()


class Routed:
    """How one router sends; `connection` makes the kind of connection that does so."""

    def __init__(self, name: Name, seed: int, pools: list[str], own_pool: str) -> None:
        self.pools = pools
        self.own_pool = own_pool
        self._policy = policy(name, len(pools), seed)
        self._prefixes = [f"{subjects.PREFIX}.{_CLASS}.{subjects.token(pool)}." for pool in pools]

    def subject(self, subject: str) -> str:
        """The subject of the same model in the pool that is chosen now."""
        return self._prefixes[self._policy.choose()] + subject.rpartition(".")[2]

    def reported(self, held: dict[str, int]) -> None:
        """`held`: units on each subject."""
        lengths = [0] * len(self.pools)
        for subject, count in held.items():
            for place, prefix in enumerate(self._prefixes):
                if subject.startswith(prefix):
                    lengths[place] += count
        self._policy.reported(lengths)

    def connection(self) -> type[Connection]:
        """A kind of connection for `Gateway.open`, which makes it itself."""
        routed = self

        class RoutedConnection(Connection):
            @classmethod
            async def open(cls, *args: Any, **options: Any) -> Connection:
                connection = await super().open(*args, **options)
                background(_report_for_ever(connection, routed))
                return connection

            def publish_unit(
                self, subject: str, data: bytes, ttl_s: float, message_id: str
            ) -> asyncio.Future[int]:
                return super().publish_unit(routed.subject(subject), data, ttl_s, message_id)

            def subscribe(self, subject: str, handler: Handler) -> int:
                if subject.startswith(subjects.WORKER_PULSES):
                    handler = _as_one_pool(handler, routed)
                return super().subscribe(subject, handler)

        return RoutedConnection


def _as_one_pool(handler: Handler, routed: Routed) -> Handler:
    """Pulses of the routed pools' workers look like those of the gateway's own pool."""
    known = set(routed.pools)

    def on_pulse(data: bytes, reply: str, status: str | None, subject: str) -> None:
        pulse = decode_queue(data)
        if isinstance(pulse, WorkerPulse) and pulse.pool in known:
            shown = msgspec.structs.replace(pulse, pool=routed.own_pool)
            handler(encode(shown), reply, status, subject)

    return on_pulse


async def _report_for_ever(connection: Connection, routed: Routed) -> None:
    every = {"subjects_filter": subjects.stream_subjects(_CLASS)}
    while True:
        await asyncio.sleep(REPORT_S)
        try:
            stream = await connection.api(f"STREAM.INFO.{subjects.stream(_CLASS)}", every, _Stream)
        except Unavailable:
            continue
        routed.reported(stream.state.subjects)


def main(arguments: list[str]) -> None:
    """Run a router: its policy, its number, the pools; the rest as any gateway is told."""
    name, seed, *pools = arguments
    settings = load(GatewaySettings, [("environment", from_environment(os.environ))])
    routed = Routed(msgspec.convert(name, Name), int(seed), pools, settings.pool)
    run(settings, connect=routed.connection())


if __name__ == "__main__":
    main(sys.argv[1:])

"""What a whole deployment looks like right now: pulses of its processes, and JetStream's numbers.

Only listens and asks; any number of observers may run. Knows no way to show it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sized
from typing import Any

import msgspec

from shoal.broker.answers import ApiError
from shoal.broker.connection import Connection
from shoal.core.pulsing import period_s
from shoal.errors import BrokerError, ProtocolError
from shoal.values import TrafficClass
from shoal.wire import subjects
from shoal.wire.queue import GatewayPulse, WorkerPulse, decode_queue

#: Every process pulses about once a second; this leaves room for one that is late. Workers of a large
#: pool pulse more seldom: then it is listened for longer.
LISTEN_S = 1.5
_STREAM_MISSING = 10059


class Model(msgspec.Struct, frozen=True):
    """What one worker says of one model; `bytes` and `load_s` of one copy, 0 until it was loaded."""

    name: str
    state: str
    lanes: int
    shelf_s: float
    reason: str | None = None
    bytes: int = 0
    load_s: float = 0.0
    pinned: bool = False


class Memory(msgspec.Struct, frozen=True):
    """Bytes of one lane: held by models, the budget for them (0: none), and of its processes."""

    held_bytes: int
    budget_bytes: int
    rss_bytes: int


class Worker(msgspec.Struct, frozen=True):
    """One worker, by its last pulse."""

    id: str
    pool: str
    host: str
    lanes: list[str]
    units_held: int
    ready: bool
    draining: bool
    models: list[Model]
    memory: dict[str, Memory] = {}


class Gateway(msgspec.Struct, frozen=True):
    """One gateway; `outstanding_s`: predicted seconds of work it waits for, by model."""

    id: str
    pool: str
    outstanding_s: dict[str, float]


class Depth(msgspec.Struct, frozen=True):
    """The queue of one model: units that `wait`, and units a worker `held` and has not settled."""

    klass: TrafficClass
    pool: str
    model: str
    waiting: int
    held: int


class Snapshot(msgspec.Struct, frozen=True):
    """Everything `shoal status` shows."""

    broker_url: str
    gateways: list[Gateway]
    workers: list[Worker]
    queues: list[Depth]


class _Consumer(msgspec.Struct, frozen=True):
    name: str
    num_pending: int = 0
    num_ack_pending: int = 0


class _ConsumerList(msgspec.Struct, frozen=True):
    consumers: list[_Consumer] | None = None
    total: int = 0
    error: ApiError | None = None


async def take(connection: Connection) -> Snapshot:
    """Listen for a period, ask JetStream. Raises `Unavailable`, `BrokerError`."""
    workers: dict[str, WorkerPulse] = {}
    gateways: dict[str, GatewayPulse] = {}

    def heard(data: bytes, *_: Any) -> None:
        with contextlib.suppress(ProtocolError):  # of another version; the others still count
            match decode_queue(data):
                case WorkerPulse() as pulse:
                    workers[pulse.worker] = pulse
                case GatewayPulse() as pulse:
                    gateways[pulse.gateway] = pulse

    listening = [
        connection.subscribe(f"{subject}.>", heard)
        for subject in (subjects.WORKER_PULSES, subjects.GATEWAY_PULSES)
    ]
    queues = [depth for klass in subjects.CLASSES for depth in await _depths(connection, klass)]
    await _heard_all(workers)
    for subscription in listening:
        connection.unsubscribe(subscription)
    return Snapshot(
        connection.url,
        [_gateway(gateways[name]) for name in sorted(gateways)],
        [_worker(workers[name]) for name in sorted(workers)],
        sorted(queues, key=lambda depth: (depth.pool, depth.model, depth.klass)),
    )


async def _heard_all(workers: Sized) -> None:
    """Listen until every worker should have pulsed twice, in a pool of as many as were heard."""
    listened_s, need_s = 0.0, LISTEN_S
    while need_s > listened_s:
        await asyncio.sleep(need_s - listened_s)
        listened_s, need_s = need_s, 2 * period_s(len(workers))


def _gateway(pulse: GatewayPulse) -> Gateway:
    return Gateway(pulse.gateway, pulse.pool, pulse.outstanding_s)


def _worker(pulse: WorkerPulse) -> Worker:
    models = [
        Model(
            name,
            said.state,
            said.lanes,
            said.shelf_s,
            said.reason,
            said.bytes,
            said.load_s,
            said.pinned,
        )
        for name, said in sorted(pulse.models.items())
    ]
    memory = {
        lane: Memory(said.held_bytes, said.budget_bytes, said.rss_bytes)
        for lane, said in pulse.memory.items()
    }
    return Worker(
        id=pulse.worker,
        pool=pulse.pool,
        host=pulse.host,
        lanes=pulse.lanes,
        units_held=pulse.units_held,
        ready=pulse.ready,
        draining=pulse.draining,
        models=models,
        memory=memory,
    )


async def _depths(connection: Connection, klass: TrafficClass) -> list[Depth]:
    found: list[Depth] = []
    while True:
        subject = f"CONSUMER.LIST.{subjects.stream(klass)}"
        page = await connection.api(subject, {"offset": len(found)}, _ConsumerList)
        if page.error is not None and page.error.err_code != _STREAM_MISSING:
            raise BrokerError(f"cannot list consumers: {page.error.description}")
        found += [_depth(klass, consumer) for consumer in page.consumers or []]
        if not page.consumers or len(found) >= page.total:
            return found


def _depth(klass: TrafficClass, consumer: _Consumer) -> Depth:
    pool, _, model = consumer.name.partition("=")
    try:
        pool, model = subjects.name_of(pool), subjects.name_of(model)
    except ProtocolError:  # somebody else's consumer on our stream: show it as it is
        pool, model = "", consumer.name
    return Depth(klass, pool, model, consumer.num_pending, consumer.num_ack_pending)

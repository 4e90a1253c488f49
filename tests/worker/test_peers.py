"""What workers tell each other: pulses as the core takes them, and pulls, over a real broker."""

import time
from collections.abc import AsyncIterator

import pytest

from shoal.broker.connection import Connection
from shoal.broker.server import BrokerServer
from shoal.core import events as ev
from shoal.core.groups import listens_to
from shoal.settings import CommonSettings
from shoal.wire.queue import ModelPulse, WorkerPulse
from shoal.worker.peers import Peers, peer_event

from .scripted import until

MODEL = ModelPulse("resident", 2, 1e-6, 1e-5, 0.5, None, 0.01, 100, 2.0, True)


def test_what_a_peer_has() -> None:
    pulse = WorkerPulse("w", "default", "host", ["cuda:0", "cuda:1"], {"m": MODEL})
    expected = {"m": ev.PeerModel("resident", 2, 100, 2.0)}
    assert peer_event(pulse) == ev.PeerSeen("w", expected, lanes=2)


def test_a_peer_that_drains_has_nothing_any_more() -> None:
    pulse = WorkerPulse("w", "default", "host", ["cpu"], {"m": MODEL}, draining=True)
    assert peer_event(pulse) == ev.PeerLost("w")


@pytest.fixture
async def connection(broker: BrokerServer) -> AsyncIterator[Connection]:
    connection = await Connection.open(CommonSettings(broker_url=broker.url), "peers")
    yield connection
    await connection.close()


def named(group: ev.Group) -> list[str]:
    """Two workers of this group."""
    names = (f"w{number}" for number in range(100))
    return [name for name in names if group in listens_to(name)][:2]


async def test_a_group_hears_what_one_of_it_tells_and_nobody_else_does(
    connection: Connection,
) -> None:
    """Two halves of one pool, and a worker of another pool that would be in the first half."""
    left, right = ev.Group(2, 0), ev.Group(2, 1)
    heard: dict[str, list[ev.Event]] = {"teller": [], "near": [], "far": [], "stranger": []}
    teller = Peers(connection, named(left)[0], "default", heard["teller"].append)
    Peers(connection, named(left)[1], "default", heard["near"].append)
    Peers(connection, named(right)[0], "default", heard["far"].append)
    stranger = Peers(connection, named(left)[1], "other", heard["stranger"].append)
    due = time.monotonic() + 100.0
    teller.tell(ev.TellPulled(left, "m", "bulk", 3, due))
    stranger.tell(ev.TellPulled(left, "not theirs", "work", 0, due))
    teller.tell(ev.TellPulled(ev.Group(1, 0), "for all", "work", 0, due))
    await until(lambda: all("for all" in models(heard[name]) for name in ("near", "far")))
    assert {name: models(events) for name, events in heard.items()} == {
        "teller": [],
        "near": ["m", "for all"],
        "far": ["for all"],
        "stranger": [],
    }
    told = heard["near"][0]
    assert isinstance(told, ev.PeerPulled)
    assert (told.klass, told.pending) == ("bulk", 3)
    assert told.due == pytest.approx(due, abs=30.0)


def models(events: list[ev.Event]) -> list[str]:
    return [event.model for event in events if isinstance(event, ev.PeerPulled)]

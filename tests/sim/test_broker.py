"""The model of the broker does what a real nats-server does, step by step."""

import asyncio
import random
from collections.abc import Callable

import pytest

from shoal.broker.connection import Connection
from shoal.broker.pulls import Puller
from shoal.sim.broker import Broker, Message, PullEnd
from shoal.sim.clock import Clock, Link
from shoal.sim.unit import Unit
from shoal.wire import subjects
from tests.broker.harness import MODEL, POOL, SUBJECT, Recorder

#: (what, whom or which, how many): pull and wait, pull what is there, nak and ack a unit.
Step = tuple[str, str | int, int]
#: (pull, unit, times delivered, pending)
Delivery = tuple[int, str, int, int]


class _Holder:
    """Hears the broker over a link, as a worker does, and writes down what it hears."""

    def __init__(self, clock: Clock) -> None:
        self.down = Link(clock, random.Random(1), 1e-4, 2e-4)
        self.deliveries: list[Delivery] = []
        self.ends: dict[int, str] = {}
        self.messages: dict[str, Message] = {}

    def delivered(self, pull: int, message: Message, pending: int, filled: bool) -> None:
        self.messages[message.body.id] = message
        self.deliveries.append((pull, message.body.id, message.deliveries, pending))
        if filled:
            self.ends[pull] = "filled"

    def pull_ended(self, pull: int, reason: PullEnd) -> None:
        self.ends[pull] = reason

    def settled(self, message: Message) -> None:
        pass

    def replied(self, message: Message, worker: object) -> None:
        pass


class Modelled:
    """The script on the model."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.broker = Broker(self.clock)
        self.holder = _Holder(self.clock)

    def step(self, step: Step) -> None:
        what, which, count = step
        broker, holder = self.broker, self.holder
        match what, which:
            case "publish", str(name):
                unit = Unit(name, name, MODEL, [3], 8, 60.0, holder)
                broker.publish(MODEL, unit, 60.0)
            case "wait", int(pull):
                broker.pull(holder, pull, MODEL, count, 30.0)
            case "take", int(pull):
                broker.pull(holder, pull, MODEL, count, None)
            case "withdraw", int(pull):
                broker.withdraw(holder, pull)
            case "nak", str(name):
                broker.nak(holder.messages[name], count / 1000)
            case "ack", str(name):
                broker.ack(holder.messages[name], holder)
        self.clock.run(self.clock.now + 1.0)


class Real:
    """The script on a nats-server; each step ends when it heard as much as the model did."""

    def __init__(self, connection: Connection, puller: Puller, recorder: Recorder) -> None:
        self._connection = connection
        self._puller = puller
        self._recorder = recorder

    async def step(self, step: Step) -> None:
        what, which, count = step
        acks = {d.data.decode(): d.ack for _, d in self._recorder.deliveries}
        match what, which:
            case "publish", str(name):
                await self._connection.publish_unit(SUBJECT, name.encode(), 60, name)
            case "wait", int(pull):
                self._puller.pull(pull, "work", POOL, MODEL, count, 30.0)
            case "take", int(pull):
                self._puller.pull(pull, "work", POOL, MODEL, count, None)
            case "withdraw", int(pull):
                self._puller.withdraw(pull)
            case "nak", str(name):
                self._connection.nak(acks[name], count / 1000)
            case "ack", str(name):
                self._connection.ack(acks[name])

    def deliveries(self) -> list[Delivery]:
        return [
            (pull, d.data.decode(), d.delivered, d.pending) for pull, d in self._recorder.deliveries
        ]

    def ends(self) -> dict[int, str]:
        return dict(self._recorder.ends)

    async def waiting_pulls(self) -> int:
        info = f"CONSUMER.INFO.{subjects.stream('work')}.{subjects.consumer(POOL, MODEL)}"
        return int((await self._connection.api(info, {}, dict))["num_waiting"])

    async def new_messages(self) -> int:
        info = f"CONSUMER.INFO.{subjects.stream('work')}.{subjects.consumer(POOL, MODEL)}"
        return int((await self._connection.api(info, {}, dict))["num_pending"])


SCRIPTS: dict[str, list[Step]] = {
    "first in, first out; each tells what waits behind it": [
        ("publish", "a", 0),
        ("publish", "b", 0),
        ("publish", "c", 0),
        ("take", 1, 2),
        ("take", 2, 5),
        ("take", 3, 1),
    ],
    "pulls that wait take turns, one unit each": [
        ("wait", 1, 2),
        ("wait", 2, 2),
        ("publish", "a", 0),
        ("publish", "b", 0),
        ("publish", "c", 0),
        ("publish", "d", 0),
    ],
    "a withdrawn pull gets nothing": [
        ("wait", 1, 1),
        ("wait", 2, 1),
        ("withdraw", 1, 0),
        ("publish", "a", 0),
        ("publish", "b", 0),
        ("take", 3, 1),
    ],
    "what was given back comes before new units, and pending does not count it": [
        ("publish", "a", 0),
        ("publish", "b", 0),
        ("publish", "c", 0),
        ("take", 1, 1),
        ("nak", "a", 0),
        ("take", 2, 2),
        ("ack", "a", 0),
        ("take", 3, 2),
    ],
    "a pull that waits gets what is given back": [
        ("publish", "a", 0),
        ("take", 1, 1),
        ("wait", 2, 2),
        ("nak", "a", 50),
        ("publish", "b", 0),
    ],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_as_a_real_server(
    script: list[Step], connection: Connection, puller: Puller, recorder: Recorder
) -> None:
    model, real = Modelled(), Real(connection, puller, recorder)
    for step in script:
        model.step(step)
        await real.step(step)
        await _same(lambda: real.deliveries(), lambda: model.holder.deliveries)
        await _same(lambda: real.ends(), lambda: model.holder.ends)
        async with asyncio.timeout(30):
            while await real.new_messages() != model.broker.new(MODEL):
                pass
            while await real.waiting_pulls() != model.broker.pulls(MODEL):
                pass


async def _same(real: Callable[[], object], model: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(30):
            while real() != model():
                await asyncio.sleep(0.002)
    except TimeoutError:
        assert real() == model()


def test_a_withdrawal_may_cross_with_a_delivery() -> None:
    model = Modelled()
    model.step(("wait", 1, 1))
    unit = Unit("a", "a", MODEL, [3], 8, 60.0, model.holder)
    model.broker.publish(MODEL, unit, 60.0)
    model.broker.withdraw(model.holder, 1)
    model.clock.run(model.clock.now + 1.0)
    assert [name for _, name, _, _ in model.holder.deliveries] == ["a"]
    assert model.holder.ends == {1: "filled"}


def test_what_a_dead_worker_held_comes_back() -> None:
    model = Modelled()
    model.step(("publish", "a", 0))
    model.step(("take", 1, 1))
    model.broker.lost(model.holder)
    model.step(("take", 2, 1))
    assert model.holder.ends[2] == "empty"
    model.clock.run(model.clock.now + 5.0)
    model.step(("take", 3, 1))
    assert model.holder.deliveries[-1] == (3, "a", 2, 0)


def test_what_a_dead_worker_had_asked_for_comes_back_too() -> None:
    """Its pull was on its way when it died."""
    model = Modelled()
    model.step(("publish", "a", 0))
    model.broker.lost(model.holder)
    model.step(("take", 1, 1))
    model.clock.run(model.clock.now + 5.0)
    model.step(("take", 2, 1))
    assert model.holder.deliveries[-1] == (2, "a", 2, 0)


def test_what_nobody_takes_in_time_is_gone() -> None:
    model = Modelled()
    model.step(("publish", "a", 0))
    model.clock.run(model.clock.now + 60.0)
    model.step(("take", 1, 1))
    assert model.holder.deliveries == []

"""Units that a test holds back, and what the worker says that an item costs."""

from __future__ import annotations

from shoal.wire.queue import ModelPulse, Unit
from tests.gateway.conftest import MODEL, Served, until
from tests.gateway.scripted import ScriptedWorker, embed


class Held:
    """An `answer` that keeps units until the test lets them go."""

    def __init__(self, worker: ScriptedWorker) -> None:
        self._worker = worker
        self.units: list[tuple[Unit, str]] = []
        worker.answer = self

    def __call__(self, unit: Unit, ack: str) -> None:
        self.units.append((unit, ack))

    async def come(self, count: int) -> None:
        """Wait until so many have come."""
        await until(lambda: len(self.units) >= count)

    def send(self, position: int) -> Unit:
        unit, ack = self.units[position]
        self._worker.send(unit, embed(unit, ack))
        return unit

    def send_all(self) -> None:
        """Let go of those held so far, and of all that come from now on."""
        self._worker.answer = embed
        for position in range(len(self.units)):
            self.send(position)


async def costly(served: Served, worker: ScriptedWorker, seconds_per_item: float) -> None:
    """The worker says that an item takes this long, and the gateway has heard it."""
    worker.state = ModelPulse("resident", 1, 0.0, seconds_per_item)
    worker.pulse()
    rate, card = served.app.gateway.fleet.rate, served.app.gateway.catalog.card(MODEL)
    await until(lambda: rate(card).seconds_per_item == seconds_per_item)

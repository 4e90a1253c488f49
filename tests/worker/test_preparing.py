"""What a tokenizer may do to the thread that runs it, and what comes of units that went meanwhile: nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import cast

import msgspec

from shoal.broker.payloads import Payloads
from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import ComputeFailed, ShoalError
from shoal.settings import WorkerSettings
from shoal.tasks.encode import Item
from shoal.values import EncodeParams, Params, ScoreParams
from shoal.wire.arrays import from_wire
from shoal.wire.queue import Payload, Unit
from shoal.worker.payloads import Fetching
from shoal.worker.prepared import Prepared, Preparer
from shoal.worker.preparing import Preparing, prepare
from shoal.worker.text import PlainPreparer
from tests.worker.conftest import StartWorker
from tests.worker.scripted import ScriptedGateway, until

FAKE = Card("fake", Source(dir="/nowhere"), "fake", Tasks(EncodeTask(dense=Dense(8))), 512)


class Panic(BaseException):
    """As pyo3 raises for a panic in Rust: https://docs.rs/pyo3/latest/pyo3/panic/."""


class Panicking:
    def prepare(self, items: list[str], params: EncodeParams, query: None) -> None:
        raise Panic("index out of bounds")


def test_a_panic_of_the_tokenizer_fails_the_unit_only() -> None:
    params = EncodeParams()
    unit = Unit("u", "r", "m", "encode", params, "json", [b'"fish"'], 1.0, "reply")
    (outcome,) = prepare(unit, unit.items, cast(Preparer, Panicking()))
    assert isinstance(outcome, ComputeFailed)
    assert "index out of bounds" in outcome.message


class Forgetful:
    def prepare(self, items: list[str], params: EncodeParams, query: None) -> list[Prepared]:
        return []


def test_a_preparer_that_answers_too_little_fails_the_unit_and_not_the_thread() -> None:
    unit = Unit("u", "r", "m", "encode", EncodeParams(), "json", [b'"fish"'], 1.0, "reply")
    (outcome,) = prepare(unit, unit.items, cast(Preparer, Forgetful()))
    assert isinstance(outcome, ComputeFailed)


async def test_what_was_prepared_for_an_earlier_delivery_is_not_taken_for_a_later_one(
    start_worker: StartWorker, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    """Its items would be there twice, and its answer not add up."""
    folder = tmp_path / "payloads"
    worker = await start_worker(payload_url=folder.as_uri())
    unit = await gateway.publish(["", "short"], payloads={0: Payload("late", 6)})
    await until(lambda: worker.core.units.get(unit.id) is not None)
    earlier = msgspec.structs.replace(unit)
    outcome = prepare(earlier, [b'"long"', b'"short"'], PlainPreparer(FAKE))
    worker._loop.prepared([(earlier, outcome, time.monotonic())])
    held = worker.core.units.get(unit.id)
    assert held is not None and not held.prepared
    await Payloads(folder.as_uri()).put("late", b'"long"')
    reply = await gateway.reply(unit)
    assert (len(reply.tokens), from_wire(reply.outputs["dense"]).shape) == (2, (2, 8))


class Waiting(PlainPreparer):
    """Takes until it is let go, whatever its bytes are, as images may."""

    slow = True

    def __init__(self) -> None:
        super().__init__(FAKE)
        self.go = threading.Event()

    def prepare(
        self, items: list[Item], params: Params, query: Item | None = None
    ) -> list[Prepared | ShoalError]:
        self.go.wait(30)
        return super().prepare(items, params, query)


async def test_a_short_text_does_not_wait_for_an_image(tmp_path: Path) -> None:
    ready: list[str] = []
    fetching = Fetching(Payloads(tmp_path.as_uri()), WorkerSettings())
    preparing = Preparing(lambda done: ready.extend(u.id for u, _, _ in done), fetching)
    image, text = (
        Unit(name, "r", "m", "encode", EncodeParams(), "json", [b'"x"'], 1.0, "reply")
        for name in ("image", "text")
    )
    waiting = Waiting()
    params = ScoreParams(b'"%s"' % (b"q" * 66_000))
    long = Unit("long", "r", "m", "score", params, "json", [b'"x"'], 1.0, "reply")
    try:
        preparing.submit(image, waiting, 3)
        preparing.submit(long, PlainPreparer(FAKE), 66_005)  # nor for one: it stands behind
        preparing.submit(text, PlainPreparer(FAKE), 3)
        await until(lambda: ready == ["text"])
        waiting.go.set()
        await until(lambda: ready == ["text", "image", "long"])
    finally:
        waiting.go.set()
        preparing.stop()

"""A worker of a few lines: pulls real units from a real stream and answers as a test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from itertools import product
from typing import Any

import msgspec
import numpy as np

from shoal.broker.base import Delivery, PullEnd
from shoal.broker.connection import Connection
from shoal.broker.pulls import Puller
from shoal.broker.streams import ensure_consumer, ensure_streams
from shoal.errors import ErrorInfo, Unavailable
from shoal.settings import CommonSettings
from shoal.values import (
    EncodeParams,
    ExtractParams,
    GenerateParams,
    ScoreParams,
    TokenizeParams,
    TrafficClass,
)
from shoal.wire import subjects
from shoal.wire.arrays import DTYPES, to_wire
from shoal.wire.codec import encode
from shoal.wire.objects import Generation
from shoal.wire.outputs import Output, to_wires
from shoal.wire.queue import (
    Cancel,
    GatewayPulse,
    ModelPulse,
    Piece,
    Reply,
    Timings,
    Unit,
    WorkerPulse,
    decode_queue,
)

Answer = Callable[[Unit, str], Reply | None]
DIM = 8


def embed(unit: Unit, ack: str, worker: str = "scripted") -> Reply:
    """Row i is filled with the item's length in bytes; a text that says ``bad`` fails.

    Each text has two tokens, with vectors of 4, and a term for each token.
    """
    params = unit.params
    assert isinstance(params, EncodeParams)
    lengths = [len(item) for item in unit.items if b"bad" not in item]
    outputs: dict[str, Output] = {}
    for name in params.outputs:
        outputs |= vectors(name, lengths, params)
    arrays, ragged, indices = to_wires(outputs)
    timings = Timings(0.001, 0.002, 0.003, 0.004, len(unit.items))
    counted = _counted(unit, ack, worker)
    return msgspec.structs.replace(
        counted, outputs=arrays, lengths=ragged, indices=indices, timings=timings
    )


def vectors(name: str, lengths: list[int], params: EncodeParams) -> dict[str, Output]:
    rows = np.array(lengths)[:, None]
    twice = np.full(len(lengths), 2, np.int32)
    if name == "sparse":
        terms = np.tile(np.array([3, 7], np.int32), len(lengths))
        return {name: Output(np.repeat(rows.ravel(), 2).astype(np.float32), twice, terms)}
    if name == "multivector":
        values = np.tile(np.repeat(rows, 2, axis=0), 4).astype(DTYPES[params.dtype])
        return {name: Output(values, twice)}
    width = params.dimensions or DIM
    if params.dtype == "binary":
        bits = np.packbits(np.ones((len(lengths), width), np.uint8), axis=1)
        return {name: Output(bits)}
    whole = {name: Output(np.repeat(rows, width, axis=1).astype(DTYPES[params.dtype]))}
    if params.dtype in ("int8", "uint8"):
        whole[f"{name}.scale"] = Output(np.full(len(lengths), 0.5, np.float32))
    if params.dtype == "uint8":
        whole[f"{name}.zero_point"] = Output(np.full(len(lengths), 1, np.float32))
    return whole


def score(unit: Unit, ack: str, worker: str = "scripted") -> Reply:
    """A document scores a hundredth of its length in bytes; one that says ``bad`` fails."""
    good = [item for item in unit.items if b"bad" not in item]
    values = np.array([len(item) / 100 for item in good], np.float32)
    return msgspec.structs.replace(_counted(unit, ack, worker), outputs={"score": to_wire(values)})


def extract(unit: Unit, ack: str, worker: str = "scripted") -> Reply:
    """What the model's name says; a text that says ``bad`` fails."""
    objects = [told(unit, item) for item in unit.items if b"bad" not in item]
    packed = [msgspec.msgpack.encode(one) for one in objects]
    return msgspec.structs.replace(_counted(unit, ack, worker), objects=packed)


def tokenize(unit: Unit, ack: str, worker: str = "scripted") -> Reply:
    """A text is one special token and one of its own; ids are decoded to their JSON."""
    objects: list[dict[str, Any]] = []
    for item in unit.items:
        if item[:1] == b"[":
            objects.append({"text": item.decode()})
            continue
        text = msgspec.json.decode(item)
        stop = len(text.encode())
        whole = {"id": 7, "text": text, "special": False, "start": 0, "stop": stop}
        first = {"id": 1, "text": "[CLS]", "special": True, "start": None, "stop": None}
        objects.append({"tokens": [first, whole]})
    packed = [msgspec.msgpack.encode(one) for one in objects]
    return msgspec.structs.replace(_counted(unit, ack, worker), objects=packed)


def told(unit: Unit, item: bytes) -> dict[str, Any]:
    assert isinstance(unit.params, ExtractParams)
    if unit.model == "transcriber":
        segments = [
            {"start_s": 0.0, "end_s": 1.5, "text": " Hello"},
            {"start_s": 1.5, "end_s": 3661.25, "text": " world."},
        ]
        return {"text": " Hello world.", "language": "en", "segments": segments}
    if unit.model == "ner":
        entity = {"text": "Bonn", "label": "LOC", "score": 0.75, "start": 3, "end": 7}
        return {"entities": [entity]}
    names = unit.params.labels or ("harassment", "calm")
    return {"labels": [{"label": name, "score": 0.75 / 2**n} for n, name in enumerate(names)]}


def generate(unit: Unit, ack: str) -> Reply:
    """The bytes of each item again, a token each; one that says ``bad`` fails."""
    objects = [
        Generation(item.decode(), "stop", prompt_tokens=3, new_tokens=len(item) + 1)
        for item in unit.items
        if b"bad" not in item
    ]
    packed = [msgspec.msgpack.encode(one) for one in objects]
    return msgspec.structs.replace(_counted(unit, ack, "scripted"), objects=packed)


def _counted(unit: Unit, ack: str, worker: str) -> Reply:
    """Token counts and errors alone."""
    error = ErrorInfo("too_many_tokens", "300 tokens; the model takes 256", 400)
    errors = {n: error for n, item in enumerate(unit.items) if b"bad" in item}
    tokens = [0 if n in errors else 3 for n in range(len(unit.items))]
    cut = [n for n, item in enumerate(unit.items) if b"long" in item]
    return Reply(unit.id, worker, ack, tokens, cut, errors)


def respond(unit: Unit, ack: str) -> Reply:
    """As the task asks."""
    match unit.params:
        case EncodeParams():
            return embed(unit, ack)
        case ScoreParams():
            return score(unit, ack)
        case ExtractParams():
            return extract(unit, ack)
        case TokenizeParams():
            return tokenize(unit, ack)
        case GenerateParams():
            return generate(unit, ack)


class _Purged(msgspec.Struct):
    success: bool = False


class ScriptedWorker:
    """Pulls one unit at a time, many times over; `answer` returning None keeps silent."""

    def __init__(self, settings: CommonSettings, *models: str) -> None:
        self.settings = settings
        self.models = models
        self.reset()
        self._pulls = 0
        self._pulled: dict[int, tuple[TrafficClass, str]] = {}
        self._pulsing: asyncio.Task[None]

    def reset(self) -> None:
        """Answer everything, remember nothing."""
        self.answer: Answer = respond
        self.units: list[Unit] = []
        self.deliveries: list[Delivery] = []
        self.confirmed: list[str] = []
        self.cancelled: list[str] = []
        self.gateway_pulses: list[GatewayPulse] = []
        self.state = ModelPulse("resident", 1, 1e-6, 1e-5)
        self.ready = True

    async def purge(self) -> None:
        """Take off the queue what nobody waits for any more: it would come again later."""
        for klass in subjects.CLASSES:
            assert (await self._purged(klass)).success

    async def _purged(self, klass: TrafficClass) -> _Purged:
        """The connection may be lost just now: while tests without this loop run for minutes, nobody
        answers the broker's pings."""
        for _ in range(300):
            try:
                return await self.connection.api(
                    f"STREAM.PURGE.{subjects.stream(klass)}", {}, _Purged
                )
            except Unavailable:
                await asyncio.sleep(0.1)
        raise AssertionError("the broker did not come back")

    async def __aenter__(self) -> ScriptedWorker:
        self.connection = await Connection.open(self.settings, "scripted-worker")
        await ensure_streams(self.connection)
        kinds = list(product(subjects.CLASSES, self.models))
        for klass, model in kinds:
            await ensure_consumer(self.connection, klass, self.settings.pool, model, 5.0)
        self.inbox = self.connection.inbox()
        self.connection.subscribe(f"{self.inbox}.*", self._on_confirmed)
        self.connection.subscribe(subjects.CANCELS, self._on_cancel)
        self.connection.subscribe(f"{subjects.GATEWAY_PULSES}.*", self._on_pulse)
        self.puller = Puller(self.connection, self._on_delivery, self._on_end)
        for klass, model in kinds:
            self._pull(klass, model)
        self._pulsing = asyncio.create_task(self._pulse_for_ever())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pulsing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._pulsing
        self.puller.close()
        await self.connection.close()

    def pulse(self) -> None:
        models = dict.fromkeys(self.models, self.state)
        pulse = WorkerPulse(
            "scripted", self.settings.pool, "here", ["cpu"], models, 0, False, self.ready
        )
        with contextlib.suppress(Unavailable):
            self.connection.publish(f"{subjects.WORKER_PULSES}.scripted", encode(pulse))

    def send(self, unit: Unit, reply: Reply) -> None:
        inbox = f"{self.inbox}.{unit.id.replace('.', '=')}"
        self.connection.publish(unit.reply_to, encode(reply), inbox)

    def send_piece(self, unit: Unit, piece: Piece) -> None:
        self.connection.publish(unit.reply_to, encode(piece))

    async def _pulse_for_ever(self) -> None:
        while True:
            self.pulse()
            await asyncio.sleep(0.05)

    def _pull(self, klass: TrafficClass, model: str) -> None:
        self._pulls += 1
        self._pulled[self._pulls] = (klass, model)
        with contextlib.suppress(Unavailable):
            self.puller.pull(self._pulls, klass, self.settings.pool, model, 64, 30.0)

    def _on_end(self, pull_id: int, end: PullEnd) -> None:
        klass, model = self._pulled.pop(pull_id)
        if end in ("filled", "expired", "conflict", "empty"):
            self._pull(klass, model)
        elif end == "disconnected":
            asyncio.get_running_loop().create_task(self._pull_again(klass, model))

    async def _pull_again(self, klass: TrafficClass, model: str) -> None:
        while not self.connection.connected:
            await asyncio.sleep(0.02)
        self._pull(klass, model)

    def _on_delivery(self, pull_id: int, delivery: Delivery) -> None:
        unit = decode_queue(delivery.data)
        assert isinstance(unit, Unit)
        self.units.append(unit)
        self.deliveries.append(delivery)
        reply = self.answer(unit, delivery.ack)
        if reply is not None:
            self.send(unit, reply)

    def _on_confirmed(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        self.confirmed.append(subject.rpartition(".")[2].replace("=", "."))

    def _on_cancel(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        self.cancelled += msgspec.convert(decode_queue(data), Cancel).requests

    def _on_pulse(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        self.gateway_pulses.append(msgspec.convert(decode_queue(data), GatewayPulse))

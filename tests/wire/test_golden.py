"""Frames that never change: what today's encoder makes, and what runtimes elsewhere rely on.

A changed golden file is a changed protocol. For a new message add an example here and run
``python tests/wire/test_golden.py``, which writes missing files and touches no other.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from shoal.errors import ErrorInfo, InvalidItem
from shoal.values import (
    EncodeParams,
    ExtractParams,
    GenerateParams,
    ScoreParams,
    Speech,
    TokenizeParams,
)
from shoal.wire import codec
from shoal.wire import queue as q
from shoal.wire import socket as m
from shoal.wire.arrays import to_wire
from shoal.wire.frames import HEADER_BYTES, frame_of

GOLDEN = Path(__file__).parent / "golden"

VECTORS = to_wire(np.array([[0.5, -1.0], [2.0, 0.25]], np.float32))

TERMS = to_wire(np.array([0.5, 1.25, 2.0], np.float32))

EXAMPLES: dict[str, codec.Message] = {
    # queue: the message alone
    "unit": q.Unit(
        id="g1-7",
        request="req-1",
        model="org/name",
        task="encode",
        params=EncodeParams(("dense",), 256, "float16", True, False, "query", "find answers"),
        encoding="json",
        items=[b'"hello"', b'"world"'],
        budget_s=1.5,
        reply_to="shoal.reply.g1",
        klass="bulk",
        tenant="acme",
        adapter="legal",
        version="3",
        trace="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        priority=2,
        payloads={1: q.Payload("req-1/1", 5_400_000)},
    ),
    "reply": q.Reply(
        unit="g1-7",
        worker="w1",
        ack="$JS.ACK.shoal-work.x",
        tokens=[3, 0, 4],
        truncated=[2],
        errors={1: InvalidItem("not a string", param="items[1]").info},
        outputs={"dense": VECTORS},
        timings=q.Timings(0.001, 0.002, 0.003, 0.004, 3, 2),
    ),
    "reply-failed": q.Reply(
        unit="g1-7",
        worker="w1",
        ack="$JS.ACK.shoal-work.x",
        error=ErrorInfo("unavailable", "draining", 503, True, 1.0),
    ),
    "reply-terms": q.Reply(
        unit="g1-7",
        worker="w1",
        ack="$JS.ACK.shoal-work.x",
        tokens=[3, 4],
        outputs={"sparse": TERMS},
        lengths={"sparse": to_wire(np.array([2, 1], np.int32))},
        indices={"sparse": to_wire(np.array([7, 9, 30_521], np.int32))},
    ),
    "reply-objects": q.Reply(
        unit="g1-7",
        worker="w1",
        ack="$JS.ACK.shoal-work.x",
        tokens=[3],
        objects=[b"\x81\xa8entities\x90"],
    ),
    "unit-score": q.Unit(
        id="g1-8",
        request="req-2",
        model="org/reranker",
        task="score",
        params=ScoreParams(b'"who?"', True, True, 128, "find answers"),
        encoding="json",
        items=[b'"me"'],
        budget_s=1.5,
        reply_to="shoal.reply.g1",
    ),
    "unit-extract": q.Unit(
        id="g1-9",
        request="req-3",
        model="org/ner",
        task="extract",
        params=ExtractParams(
            ("person",), 0.5, False, True, True, "{}", Speech("de", "translate", "Frau Müller", 0.5)
        ),
        encoding="json",
        items=[b'"Ada"'],
        budget_s=1.5,
        reply_to="shoal.reply.g1",
    ),
    "unit-tokenize": q.Unit(
        id="g1-10",
        request="req-4",
        model="org/name",
        task="tokenize",
        params=TokenizeParams(False, "query"),
        encoding="json",
        items=[b'"Ada"', b"[101,7]"],
        budget_s=1.5,
        reply_to="shoal.reply.g1",
    ),
    "unit-generate": q.Unit(
        id="g1-11",
        request="req-5",
        model="org/chat",
        task="generate",
        params=GenerateParams(
            True,
            True,
            64,
            0.7,
            0.9,
            40,
            0.05,
            0.5,
            0.25,
            1.1,
            7,
            ("\n\n",),
            2,
            ((11, -100.0),),
            ("json_schema", "{}"),
            "[]",
            "none",
            '{"enable_thinking":false}',
            True,
            4500,
        ),
        encoding="json",
        items=[b'{"messages":[{"role":"user","content":"hi"}]}'],
        budget_s=300.0,
        reply_to="shoal.reply.g1",
    ),
    "piece": q.Piece(
        "g1-11",
        "w1",
        item=0,
        at=4,
        text="wörld",
        told=b"\x90",
        told_at=2,
        reasoning="hm",
        reasoning_at=3,
        call=q.CallPart(1, "weather", '{"city'),
        call_at=17,
    ),
    "part": q.ReplyPart("g1-7", "w1", part=1, parts=3, data=b"\x00\x01\x02"),
    "cancel": q.Cancel(["req-1", "req-2"]),
    "worker-pulse": q.WorkerPulse(
        worker="w1",
        pool="default",
        host="box",
        lanes=["cpu"],
        models={
            "org/name": q.ModelPulse(
                "failed",
                1,
                1e-6,
                1e-4,
                0.5,
                "no such folder",
                0.05,
                91_000_000,
                0.4,
                True,
                0.1,
                2,
                True,
                42.5,
                "torch",
                0.004,
                96.5,
            )
        },
        units_held=4,
        draining=True,
        ready=True,
        memory={"cpu": q.LaneMemory(91_000_000, 4_000_000_000, 300_000_000)},
    ),
    "gateway-pulse": q.GatewayPulse(
        "g1",
        "default",
        {"org/name": 2.5},
        {"org/name": 0.5},
        {"org/name": 3},
        {"org/name": 40.0},
        {"org/name": {"acme/3f9a02c1": 2.0}},
        {"org/name": {"acme": 39.5}},
    ),
    "pulled": q.Pulled("w1", "org/name", 12, -0.25, "bulk"),
    "dead-letter": q.DeadLetter(
        b"\x91\xa4unit",
        "dead_lettered",
        "computing this took its runtime down 3 times",
        "w1",
        strikes=3,
        items=[4],
        model="org/name",
        tenant="acme",
        request="req-1",
    ),
    # socket: with the 4-byte header
    "hello": m.Hello(
        "torch",
        "0.1.0",
        "cuda:0",
        m.Capabilities("ours", "tokens", ["bert"], True, False),
        device_bytes=24_000_000_000,
    ),
    "load": m.Load(
        "org/name",
        "/models/x",
        "bert",
        {"dense": {"dim": 2}},
        "float16",
        256,
        {"base_s": 0.5},
        2,
        8,
    ),
    "loaded": m.Loaded("org/name", 91_000_000, 0.25),
    "unload": m.Unload("org/name"),
    "unloaded": m.Unloaded("org/name"),
    "add-adapter": m.AddAdapter("org/name", "legal", "/adapters/legal"),
    "remove-adapter": m.RemoveAdapter("org/name", "legal"),
    "run-tokens": m.Run(
        7,
        "org/name",
        ["dense"],
        to_wire(np.array([101, 7592, 102, 101, 102], np.int32)),
        to_wire(np.array([3, 2], np.int32)),
        adapters=[None, "legal"],
    ),
    "run-texts": m.Run(8, "org/name", ["dense"], texts=["hello", "wörld"]),
    "run-media": m.Run(9, "org/name", ["dense"], media=[b"\x89PNG", b"\xff\xd8"]),
    "run-pairs": m.Run(
        10,
        "org/reranker",
        ["score"],
        to_wire(np.array([101, 2040, 102, 2033, 102], np.int32)),
        to_wire(np.array([5], np.int32)),
        splits=to_wire(np.array([3], np.int32)),
    ),
    "run-inputs": m.Run(
        11,
        "org/clip",
        ["dense"],
        to_wire(np.array([101, 102], np.int32)),
        to_wire(np.array([0, 2], np.int32)),
        inputs=[
            to_wire(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)),
            to_wire(np.zeros((0, 0, 3), np.uint8)),
        ],
    ),
    "run-marks": m.Run(
        13,
        "org/gliner",
        ["extract"],
        to_wire(np.array([1, 9, 4, 10, 6, 7, 2], np.int32)),
        to_wire(np.array([7], np.int32)),
        marks=to_wire(np.array([0, 2, 0, 0, 1, 1, 0], np.uint8)),
    ),
    "run-sound": m.Run(
        13,
        "org/whisper",
        ["extract"],
        to_wire(np.zeros(0, np.int32)),
        to_wire(np.array([0, 0], np.int32)),
        inputs=[to_wire(np.zeros((2, 3), np.float32))] * 2,
        begins=[to_wire(np.array([50_258, -1, 50_359], np.int32)), to_wire(np.zeros(0, np.int32))],
        temperatures=to_wire(np.array([-1.0, 0.5], np.float32)),
    ),
    "done-terms": m.Done(
        12,
        {"sparse": TERMS},
        0.004,
        7,
        lengths={"sparse": to_wire(np.array([2, 1], np.int32))},
        indices={"sparse": to_wire(np.array([7, 9, 30_521], np.int32))},
    ),
    "done": m.Done(
        7, {"dense": VECTORS}, 0.004, 6, {1: ErrorInfo("model_output_invalid", "NaN in 'dense'")}
    ),
    "generate": m.Generate(
        14,
        "org/chat",
        to_wire(np.array([1, 9906, 2], np.int32)),
        m.Sampling(
            64,
            0.7,
            0.9,
            40,
            0.05,
            0.5,
            0.25,
            1.1,
            7,
            {11: -100.0},
            [2],
            1,
            ("json_schema", "{}"),
        ),
        "legal",
    ),
    "chunk": m.Chunk(
        14,
        to_wire(np.array([9906, 11], np.int32)),
        to_wire(np.array([-0.5, -1.25], np.float32)),
        to_wire(np.array([[9906], [13]], np.int32)),
        to_wire(np.array([[-0.5], [-0.75]], np.float32)),
    ),
    "generated": m.Generated(14, "stop", 3, 0.25, 2),
    "failed": m.Failed("out_of_memory", "2 GB more needed", batch=7),
    "cancel-batch": m.CancelBatch(7),
    "ask-stats": m.AskStats(),
    "stats": m.Stats({"org/name": 91_000_000}, 300_000_000, 12),
    "bye": m.Bye("terminated"),
}
QUEUE = {
    "unit",
    "reply",
    "reply-failed",
    "reply-terms",
    "reply-objects",
    "unit-score",
    "unit-extract",
    "unit-tokenize",
    "unit-generate",
    "piece",
    "part",
    "cancel",
    "worker-pulse",
    "gateway-pulse",
}


def encoded(name: str) -> bytes:
    message = EXAMPLES[name]
    return codec.encode(message) if name in QUEUE else bytes(frame_of(message))


def decoded(name: str, data: bytes) -> list[codec.Message]:
    """What each decoder that may meet this message makes of it."""
    if name in QUEUE:
        return [q.decode_queue(data)]
    body = data[HEADER_BYTES:]
    directions = [
        decode
        for decode, union in (
            (m.decode_to_runtime, m.ToRuntime),
            (m.decode_from_runtime, m.FromRuntime),
        )
        if type(EXAMPLES[name]) in get_args(union)
    ]
    return [decode(body) for decode in directions]


@pytest.mark.parametrize("name", EXAMPLES)
def test_todays_encoder_makes_the_golden_bytes(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    assert encoded(name) == golden


@pytest.mark.parametrize("name", EXAMPLES)
def test_todays_decoder_reads_the_golden_bytes(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    for message in decoded(name, golden):
        assert message == EXAMPLES[name]


@pytest.mark.parametrize("path", sorted((GOLDEN / "older").glob("*.hex")), ids=lambda p: p.stem)
def test_todays_decoder_reads_what_older_processes_send(path: Path) -> None:
    name = path.stem.partition(".")[0]
    for message in decoded(name, bytes.fromhex(path.read_text())):
        assert type(message) is type(EXAMPLES[name])


def test_every_message_has_an_example() -> None:
    unions = (q.QueueMessage, m.ToRuntime, m.FromRuntime)
    classes = {cls for union in unions for cls in get_args(union)}
    assert {type(message) for message in EXAMPLES.values()} == classes


def test_every_golden_file_has_an_example() -> None:
    assert {path.stem for path in GOLDEN.glob("*.hex")} == set(EXAMPLES)


if __name__ == "__main__":
    for name in EXAMPLES:
        path = GOLDEN / f"{name}.hex"
        if not path.exists():
            path.write_text(encoded(name).hex() + "\n")

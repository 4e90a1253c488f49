"""What a runtime says of itself, and how it reads what it is sent."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from shoal.runtimes.check.subject import BASE, Subject
from shoal.runtimes.check.verdict import NotApplicable, expect
from shoal.wire.codec import PROTOCOL_VERSION
from shoal.wire.frames import HEADER_BYTES, frame_of
from shoal.wire.socket import AskStats, Done, Stats

#: What it says of its resident set may be of a moment ago.
_RSS_SHARE = 0.5


def hello(subject: Subject) -> None:
    """It says hello first: who it is, in the version of the protocol that we speak."""
    said = subject.process.hello
    expect(
        said.protocol == PROTOCOL_VERSION,
        f"it speaks version {said.protocol} of the protocol, and this is {PROTOCOL_VERSION}",
    )
    expect(bool(said.kind and said.version and said.device), f"a name is missing in {said}")
    abilities = said.capabilities
    expect(abilities.batching in ("ours", "self"), f"batching is '{abilities.batching}'")
    expect(abilities.inputs in ("tokens", "text", "media"), f"inputs are '{abilities.inputs}'")
    expect(bool(abilities.families), "it names no family of models")
    try:
        family = subject.sample.load.family
    except NotApplicable:
        return
    expect(family in abilities.families, f"it does not name '{family}', of which the model is")


def stats(subject: Subject) -> None:
    """It tells what its models hold, its resident set, and how many batches it ran."""
    process = subject.resident
    before = process.ask(AskStats(), Stats)
    expect(before.models.get(BASE, 0) > 0, f"'{BASE}' is loaded, and it tells of {before.models}")
    rss = _rss_bytes(process.pid)
    expect(
        before.rss_bytes >= rss * _RSS_SHARE,
        f"it tells of {before.rss_bytes} resident bytes, and the system of {rss}",
    )
    process.ask(subject.run(1), Done)
    ran = process.ask(AskStats(), Stats).batches - before.batches
    expect(ran == 1, f"it ran a batch, and its count of them grew by {ran}")


def stats_at_once(subject: Subject) -> None:
    """It tells while batches wait, and does not have the question wait behind them."""
    process, batches = subject.resident, subject.busy()
    process.send(*batches, AskStats())
    answers = [process.hear_any() for _ in range(len(batches) + 1)]
    expect(not isinstance(answers[-1], Stats), f"it told after all of {len(batches)} batches")


def fields_of_later_versions(subject: Subject) -> None:
    """It reads a message that has more fields than it knows."""
    frame = frame_of(AskStats())
    fields = [*msgspec.msgpack.decode(frame[HEADER_BYTES:]), "later", {"and": [1]}]
    body = msgspec.msgpack.encode(fields)
    process = subject.process
    process.send_bytes(len(body).to_bytes(HEADER_BYTES, "big") + body)
    process.hear(Stats)


def fields_that_are_left_out(subject: Subject) -> None:
    """It reads a message without the fields at its end that have a default."""
    frame = frame_of(subject.run(1))
    fields = msgspec.msgpack.decode(frame[HEADER_BYTES:])
    while fields[-1] is None:
        fields.pop()
    body = msgspec.msgpack.encode(fields)
    process = subject.resident
    process.send_bytes(len(body).to_bytes(HEADER_BYTES, "big") + body)
    process.hear(Done)


def frames_in_pieces(subject: Subject) -> None:
    """It reads frames that arrive byte by byte, and several that arrive at once."""
    process = subject.process
    frame = bytes(frame_of(AskStats()))
    for at in range(len(frame)):
        process.send_bytes(frame[at : at + 1])
    process.hear(Stats)
    process.send_bytes(frame * 3)
    for _ in range(3):
        process.hear(Stats)


def _rss_bytes(pid: int) -> int:
    """What the system says of a process; 1 MB, which any has, where it does not say."""
    status = Path(f"/proc/{pid}/status")
    if not (sys.platform == "linux" and status.exists()):
        return 1_000_000
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


CHECKS = (
    hello,
    stats,
    stats_at_once,
    fields_of_later_versions,
    fields_that_are_left_out,
    frames_in_pieces,
)

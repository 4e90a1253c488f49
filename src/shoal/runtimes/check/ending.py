"""How a runtime ends: as it is told, when its worker goes, on garbage, and when it is killed."""

from __future__ import annotations

import signal

from shoal.runtimes.check.process import Process
from shoal.runtimes.check.sample import apart, rows_of
from shoal.runtimes.check.subject import BASE, Subject
from shoal.runtimes.check.verdict import expect, shown
from shoal.wire.frames import HEADER_BYTES, MAX_FRAME_BYTES, frame_of
from shoal.wire.socket import AskStats, Bye, Done, Loaded, Stats, Unloaded

#: SIGTERM may come just between two batches, though not each time.
_TRIES = 6


def bye(subject: Subject) -> None:
    """It ends on `bye`, with status 0, and leaves nothing behind."""
    with subject.fresh() as process:
        process.send(Bye())
        _silent(process)
        _status(process, 0)


def sigterm(subject: Subject) -> None:
    """It ends on SIGTERM, after a `bye` of its own, with status 0."""
    with subject.fresh() as process:
        process.tell(signal.SIGTERM)
        process.hear(Bye)
        _silent(process)
        _status(process, 0)


def sigterm_while_it_computes(subject: Subject) -> None:
    """On SIGTERM it first answers what it is computing."""
    batches = subject.busy()
    for _ in range(_TRIES):
        with subject.fresh() as process:
            process.ask(subject.load(BASE), Loaded)
            process.send(*batches)
            process.hear(Done)
            _begun(process)
            process.tell(signal.SIGTERM)
            answered = 0
            while isinstance(message := process.hear_any("'bye'"), Done):
                answered += 1
            expect(isinstance(message, Bye), f"'bye' was due, and {shown(message)} came")
            _silent(process)
            _status(process, 0)
        if answered:
            return
    expect(False, f"of {len(batches)} batches that waited it left the one that it was computing")


def its_worker_goes(subject: Subject) -> None:
    """It ends when the socket closes, with status 0."""
    with subject.fresh() as process:
        process.close()
        _status(process, 0)


def its_worker_goes_while_it_computes(subject: Subject) -> None:
    """It ends when the socket closes, whatever it has to do, and to answer, meanwhile."""
    batches = subject.busy()
    with subject.fresh() as process:
        process.ask(subject.load(BASE), Loaded)
        process.send(*batches)
        process.hear(Done)
        process.close()
        _status(process, 0)


def no_message(subject: Subject) -> None:
    """A frame that is no message at all is answered with `bye` and the reason, and a status that tells."""
    _garbage(subject, _frame(b"\xc1 no MessagePack"))


def an_unknown_message(subject: Subject) -> None:
    """So is a message that no version has."""
    _garbage(subject, _frame(b"\x92\xa8no-such-\x01"))


def a_message_of_its_own(subject: Subject) -> None:
    """So is a message that only a runtime sends."""
    _garbage(subject, bytes(frame_of(Unloaded("base"))))


def a_message_that_breaks_off(subject: Subject) -> None:
    """So is a frame that ends before its message does."""
    whole = bytes(frame_of(AskStats()))[HEADER_BYTES:]
    _garbage(subject, _frame(whole[:-1]))


def a_frame_too_long(subject: Subject) -> None:
    """So is a length over the limit, before any of what it announces came."""
    _garbage(subject, (MAX_FRAME_BYTES + 1).to_bytes(HEADER_BYTES, "big"))


def a_frame_cut_short(subject: Subject) -> None:
    """It ends when the socket closes within a frame."""
    with subject.fresh() as process:
        process.send_bytes((100_000).to_bytes(HEADER_BYTES, "big") + b"\x91")
        process.close()
        process.ended()


def killed_and_started_again(subject: Subject) -> None:
    """Killed, it leaves nothing behind; started again, it gives the same answers."""
    items = subject.items[:1]
    said = []
    for _ in range(2):
        with subject.fresh() as process:
            process.ask(subject.load(BASE), Loaded)
            rows = rows_of(process.ask(subject.run(1), Done), len(items))
            said.append(next(iter(rows.values()))[0])
            process.tell(signal.SIGKILL)
            _silent(process)
            _status(process, -signal.SIGKILL)
    expect(apart(*said) <= subject.sample.tolerance, "it answers otherwise than before")


def _begun(process: Process) -> None:
    """A question and its answer later, the next batch is most likely begun."""
    process.send(AskStats())
    while not isinstance(process.hear_any("'stats'"), Stats):
        pass


def _garbage(subject: Subject, data: bytes) -> None:
    with subject.fresh() as process:
        process.send_bytes(data)
        said = process.hear(Bye)
        expect(bool(said.reason), "its 'bye' does not say what it did not understand")
        _silent(process)
        status = process.ended()
        expect(status != 0, "it ended with status 0, as if nothing had been wrong")


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def _silent(process: Process) -> None:
    message = process.next()
    expect(message is None, f"after the end came {message and shown(message)}")


def _status(process: Process, due: int) -> None:
    status = process.ended()
    expect(status == due, f"status {due} was due, and it ended with {status}")


CHECKS = (
    bye,
    sigterm,
    sigterm_while_it_computes,
    its_worker_goes,
    its_worker_goes_while_it_computes,
    no_message,
    an_unknown_message,
    a_message_of_its_own,
    a_message_that_breaks_off,
    a_frame_too_long,
    a_frame_cut_short,
    killed_and_started_again,
)

"""Models come and go: what they hold, in which order, and beside what."""

from __future__ import annotations

import msgspec

from shoal.runtimes.check.process import Process
from shoal.runtimes.check.subject import Subject
from shoal.runtimes.check.verdict import NotApplicable, expect, shown
from shoal.wire.socket import (
    AskStats,
    CancelBatch,
    Done,
    Failed,
    FromRuntime,
    Load,
    Loaded,
    Stats,
    Unload,
    Unloaded,
)

MB = 1_000_000
#: What a process may grow by beside a model: a library's first use, what malloc keeps.
_BESIDE_BYTES = 32 * MB
#: And what its model may hold beyond what was said.
_BEYOND = 1.5
#: Loads and unloads of one model; what it loses each time has become several models after these.
_CYCLES = 6
_SETTLED = 2
#: A model must take so many times longer to load than a batch takes to run, to be seen beside it.
_LONGER = 10


def load_and_measured_bytes(subject: Subject) -> None:
    """It tells what a model holds, the same twice, and that is what the process grew by."""
    process = subject.resident
    before = _stats(process).rss_bytes
    loaded = process.ask(subject.load("second", large=True), Loaded)
    after = _stats(process)
    process.ask(Unload("second"), Unloaded)
    expect(loaded.model == "second", f"'second' was to be loaded, and '{loaded.model}' was")
    expect(loaded.bytes > 0, "it was told to hold nothing")
    told = after.models.get("second")
    expect(told == loaded.bytes, f"it holds {loaded.bytes} bytes, and stats tell of {told}")
    grown = after.rss_bytes - before
    expect(
        grown <= loaded.bytes * _BEYOND + _BESIDE_BYTES,
        f"it is said to hold {loaded.bytes // MB} MB, and the process grew by {grown // MB} MB",
    )


def unload_gives_memory_back(subject: Subject) -> None:
    """A model that is loaded and unloaded again and again leaves the process as large as it was."""
    process, sizes, held = subject.resident, list[int](), 0
    for _ in range(_CYCLES):
        held = process.ask(subject.load("second", large=True), Loaded).bytes
        answer = process.ask(Unload("second"), Unloaded)
        expect(answer.model == "second", f"'second' was to go, and '{answer.model}' went")
        stats = _stats(process)
        expect("second" not in stats.models, "stats tell of it after it was unloaded")
        sizes.append(stats.rss_bytes)
    grown = sizes[-1] - sizes[_SETTLED - 1]
    expect(
        grown <= max(_BESIDE_BYTES, held),
        f"{_CYCLES - _SETTLED} times a model of {held // MB} MB came and went, and the process has "
        f"grown by {grown // MB} MB",
    )


def load_again(subject: Subject) -> None:
    """A model that is loaded under a name that is taken stands in the other's place."""
    process = subject.resident
    process.ask(subject.load("second"), Loaded)
    process.ask(subject.load("second"), Loaded)
    subject.works(process, "second")
    process.ask(Unload("second"), Unloaded)
    left = _stats(process).models
    expect("second" not in left, f"it was unloaded, and one by its name is left: {left}")


def loads_in_order(subject: Subject) -> None:
    """Loads and unloads that are sent ahead are done in the order that they came in."""
    process = subject.resident
    process.send(subject.load("a"), subject.load("b"), Unload("a"), Unload("b"))
    answers = [process.hear(Loaded).model, process.hear(Loaded).model]
    answers += [process.hear(Unloaded).model, process.hear(Unloaded).model]
    expect(answers == ["a", "b", "a", "b"], f"a, b, a, b were asked for, {answers} came")


def batches_beside_a_load(subject: Subject) -> None:
    """Batches of one model run while another loads."""
    process, run = subject.resident, subject.run(0)
    seconds = process.ask(run, Done).seconds
    process.send(subject.load("second", large=True))
    answers: list[FromRuntime] = []
    while not (answers and isinstance(answers[-1], Loaded)):
        process.send(msgspec.structs.replace(run, batch=len(answers)))
        answers.append(process.hear_any("'loaded' or 'done'"))
        expect(isinstance(answers[-1], Loaded | Done), f"{shown(answers[-1])} came")
    loaded = answers[-1]
    process.hear(Done)  # of the batch that was sent last
    process.ask(Unload("second"), Unloaded)
    assert isinstance(loaded, Loaded)
    if len(answers) > 2:
        return
    if loaded.seconds < _LONGER * seconds:
        raise NotApplicable(
            f"the model loads in {loaded.seconds * 1000:.0f} ms, too soon to see batches beside it"
        )
    expect(False, f"it loaded for {loaded.seconds:.2f} s, and no batch ran meanwhile")


def unload_waits_for_batches(subject: Subject) -> None:
    """What a model was asked before it is unloaded is answered before it goes."""
    process, batches = subject.resident, subject.busy("second")
    process.ask(subject.load("second"), Loaded)
    last = len(batches) - 1
    process.send(*batches, CancelBatch(last), Unload("second"))
    answers = [process.hear_any() for _ in range(len(batches) + 1)]
    expect(
        isinstance(answers[-1], Unloaded),
        f"'unloaded' was due after all of its batches, and {shown(answers[-1])} came then",
    )
    done = sum(isinstance(answer, Done) for answer in answers)
    expect(done == last, f"{last} batches were to be done, and {done} were")


def a_load_that_fails(subject: Subject) -> None:
    """What cannot be loaded is answered with the reason, and harms no other model."""
    process, sample = subject.resident, subject.sample
    load, said = sample.broken or (
        msgspec.structs.replace(sample.load, path="/no such folder"),
        "no such folder",
    )
    _refused(process, load, said)
    _refused(process, msgspec.structs.replace(load, family="no-such-family"), "no-such-family")
    subject.works(process)


def an_unknown_model(subject: Subject) -> None:
    """A model that is not loaded is neither run nor unloaded, and its name is told."""
    process = subject.process
    failed = process.ask(Unload("never-loaded"), Failed)
    expect(failed.code == "unknown_model", f"'unknown_model' was due, {shown(failed)} came")
    expect(failed.model == "never-loaded", f"'never-loaded' is the model, not '{failed.model}'")
    process = subject.resident
    failed = process.ask(subject.run(3, "never-loaded"), Failed)
    expect(failed.code == "unknown_model", f"'unknown_model' was due, {shown(failed)} came")
    expect(failed.batch == 3, f"batch 3 was sent, {failed.batch} was answered")
    expect("never-loaded" in failed.message, f"it does not name the model: {failed.message}")


def _refused(process: Process, load: Load, said: str) -> None:
    load = msgspec.structs.replace(load, model="broken")
    failed = process.ask(load, Failed)
    expect(failed.code == "model_load_failed", f"'model_load_failed' was due, {shown(failed)} came")
    expect(failed.model == "broken", f"'broken' is the model, and '{failed.model}' was answered")
    expect(failed.batch is None, "a load was answered as a batch")
    expect(said in failed.message, f"'{said}' is the reason, it says: {failed.message}")
    left = _stats(process).models
    expect("broken" not in left, f"what failed to load is told among what is: {left}")


def _stats(process: Process) -> Stats:
    return process.ask(AskStats(), Stats)


CHECKS = (
    load_and_measured_bytes,
    unload_gives_memory_back,
    load_again,
    loads_in_order,
    batches_beside_a_load,
    unload_waits_for_batches,
    a_load_that_fails,
    an_unknown_model,
)

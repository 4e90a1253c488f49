"""Runtimes with one fault each: ``python rogue.py FAULT kind=… socket=…``.

All are the fake runtime behind the real server, but for what the fault changes.
"""

from __future__ import annotations

import contextlib
import operator
import os
import random
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import InvalidRequest, ProtocolError, ShoalError
from shoal.runtimes import server
from shoal.runtimes.batch import Outputs
from shoal.runtimes.fake.runtime import FakeRuntime, Pretended
from shoal.runtimes.process import die_with_parent
from shoal.runtimes.server import Server
from shoal.wire import frames
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.codec import Buffer
from shoal.wire.frames import HEADER_BYTES, FrameReader, frame_of
from shoal.wire.outputs import Output
from shoal.wire.socket import (
    AddAdapter,
    AskStats,
    Bye,
    Chunk,
    Done,
    Failed,
    Generate,
    Generated,
    Hello,
    Load,
    Loaded,
    RemoveAdapter,
    Run,
    Stats,
    ToRuntime,
    Unload,
    decode_to_runtime,
)


class OtherProtocol(FakeRuntime):
    def hello(self) -> Hello:
        return msgspec.structs.replace(super().hello(), protocol=99)


class CountsNothing(FakeRuntime):
    def stats(self) -> Stats:
        return msgspec.structs.replace(super().stats(), batches=0)


class Understates(FakeRuntime):
    def load(self, load: Load) -> Loaded:
        return msgspec.structs.replace(super().load(load), bytes=1000)


class Holds(FakeRuntime):
    """More than it tells, alike each time it is asked."""

    def make(self, load: Load) -> Pretended:
        made = super().make(load)
        return Pretended(made.load, msgspec.structs.replace(made.options, bytes=1000))

    def unload(self, model: str) -> None:
        _, made = self._resident(model)
        real = super().make(msgspec.structs.replace(made.load, model=f"{model}-"))
        self._memory.give_back(f"{model}-", real.options)
        super().unload(model)


class Leaks(FakeRuntime):
    def make(self, load: Load) -> Pretended:
        options = load.options | {"leaks": load.options.get("bytes", 0)}
        return super().make(msgspec.structs.replace(load, options=options))


class KeepsTheOld(FakeRuntime):
    _extra = 0

    def load(self, load: Load) -> Loaded:
        again = load.model in self._models
        loaded = super().load(load)
        self._extra += again
        return loaded

    def unload(self, model: str) -> None:
        if self._extra:
            self._extra -= 1
        else:
            super().unload(model)


class LoadsWhatIsBroken(FakeRuntime):
    def load(self, load: Load) -> Loaded:
        try:
            return super().load(load)
        except ShoalError:
            raise RuntimeError("something went wrong") from None


class KnowsNoNames(FakeRuntime):
    def unload(self, model: str) -> None:
        if model in self._models:
            super().unload(model)


class Mixes(FakeRuntime):
    """The rows of a batch, back to front."""

    def compute(self, model: Pretended, batch: Run) -> Outputs:
        said = super().compute(model, batch)
        turned = {head: Output(output.values[::-1].copy()) for head, output in said.outputs.items()}
        return msgspec.structs.replace(said, outputs=turned)


class FailsAll(FakeRuntime):
    def compute(self, model: Pretended, batch: Run) -> Outputs:
        said = super().compute(model, batch)
        if said.failed:
            raise InvalidRequest("an item is wrong")
        return said


class TakesAnyHead(FakeRuntime):
    def run(self, batch: Run) -> Done:
        load, _ = self._resident(batch.model)
        known = [head for head in batch.heads if head in load.heads]
        return super().run(msgspec.structs.replace(batch, heads=known))


class DiesOfLies(FakeRuntime):
    def run(self, batch: Run) -> Done:
        try:
            return super().run(batch)
        except ProtocolError:
            os._exit(3)


class ByChance(FakeRuntime):
    """Texts that nothing decides."""

    def step(self) -> list[Chunk | Generated | Failed]:
        said = super().step()
        return [_other(message) if isinstance(message, Chunk) else message for message in said]


def _other(chunk: Chunk) -> Chunk:
    ids = from_wire(chunk.tokens) + random.randrange(1000)
    return msgspec.structs.replace(chunk, tokens=to_wire(ids.astype(np.int32)))


class TellsTheEnd(FakeRuntime):
    """The id that ends a text is told as a part of it."""

    def __init__(self) -> None:
        super().__init__()
        self._stops: dict[int, list[int]] = {}

    def begin(self, generate: Generate) -> None:
        self._stops[generate.batch] = generate.sampling.stop
        super().begin(generate)

    def step(self) -> list[Chunk | Generated | Failed]:
        return [each for message in super().step() for each in self._told(message)]

    def _told(self, message: Chunk | Generated | Failed) -> Iterator[Chunk | Generated | Failed]:
        if isinstance(message, Generated) and message.finish == "stop":
            ids = np.array(self._stops[message.batch], np.int32)
            yield Chunk(message.batch, to_wire(ids))
        yield message


class SilentOnTokens(FakeRuntime):
    def step(self) -> list[Chunk | Generated | Failed]:
        return [
            msgspec.structs.replace(message, logprobs=None, top_ids=None, top_logprobs=None)
            if isinstance(message, Chunk)
            else message
            for message in super().step()
        ]


class OneAfterTheOther(FakeRuntime):
    def step(self) -> list[Chunk | Generated | Failed]:
        places = dict.fromkeys(self._models, 1)
        return self._sequences.step(places)


class Adapts(FakeRuntime):
    """Takes adapters, as it should: an item with one gets other numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._adapters: set[str] = set()

    def hello(self) -> Hello:
        said = super().hello()
        capabilities = msgspec.structs.replace(said.capabilities, lora=True)
        return msgspec.structs.replace(said, capabilities=capabilities)

    def add_adapter(self, add: AddAdapter) -> None:
        self._adapters.add(add.adapter)

    def remove_adapter(self, remove: RemoveAdapter) -> None:
        self._adapters.discard(remove.adapter)

    def run(self, batch: Run) -> Done:
        names = batch.adapters or []
        if unknown := [name for name in names if name and name not in self._adapters]:
            raise InvalidRequest(f"no adapter {unknown}")
        done = super().run(msgspec.structs.replace(batch, adapters=None))
        changed = np.array([bool(name) for name in names])
        arrays = {
            head: to_wire(np.where(self.changed(changed)[:, None], -values, values))
            for head, values in ((head, from_wire(array)) for head, array in done.arrays.items())
        }
        return msgspec.structs.replace(done, arrays=arrays) if names else done

    def changed(self, asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return asked


class AdaptsAll(Adapts):
    def changed(self, asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.full_like(asked, asked.any())


class RefusesWhatHasNoPlace(FakeRuntime):
    def begin(self, generate: Generate) -> None:
        load, _ = self._resident(generate.model)
        if len(self._sequences._all) >= load.sequences:
            raise InvalidRequest("there is no place")
        super().begin(generate)


class TakesEmptyPrompts(FakeRuntime):
    def begin(self, generate: Generate) -> None:
        if not generate.tokens.shape[0]:
            generate = msgspec.structs.replace(generate, tokens=to_wire(np.ones(1, np.int32)))
        super().begin(generate)


class GeneratesInSecret(FakeRuntime):
    """It takes sequences, and says that it takes none."""

    def hello(self) -> Hello:
        said = super().hello()
        capabilities = msgspec.structs.replace(said.capabilities, streams=False)
        return msgspec.structs.replace(said, capabilities=capabilities)


class IgnoresAdapters(FakeRuntime):
    def run(self, batch: Run) -> Done:
        return super().run(msgspec.structs.replace(batch, adapters=None))


class OtherEachTime(FakeRuntime):
    """What it answers depends on the process."""

    def compute(self, model: Pretended, batch: Run) -> Outputs:
        said = super().compute(model, batch)
        outputs = {head: Output(out.values + os.getpid()) for head, out in said.outputs.items()}
        return msgspec.structs.replace(said, outputs=outputs)


class LeavesAChild(FakeRuntime):
    def hello(self) -> Hello:
        self._child = subprocess.Popen(["sleep", "60"])
        return super().hello()


# --- faults of what stands at the socket ----------------------------------------------------


class QueuesStats(Server):
    def _accept(self, message: ToRuntime) -> None:
        if isinstance(message, AskStats):
            self._todo.put(message)
        else:
            super()._accept(message)


class UnloadsAtOnce(Server):
    def _accept(self, message: ToRuntime) -> None:
        if isinstance(message, Unload):
            self._answer(message)
        else:
            super()._accept(message)


class LoadsInTurn(Server):
    """Loads wait for batches, and batches for loads."""

    def _accept(self, message: ToRuntime) -> None:
        if isinstance(message, Load | Unload):
            self._todo.put(message)
        else:
            super()._accept(message)


class LastFirst(Server):
    def _next(self) -> ToRuntime | None:
        waiting = [super()._next()]
        with contextlib.suppress(Empty):
            while True:
                waiting.append(self._todo.get_nowait())
        last = waiting.pop()
        for message in waiting:
            if message is not None:
                self._todo.put(message)
        return last


class BatchesLast(Server):
    """No batch has a turn while there are sequences."""

    _later: deque[ToRuntime] = deque()

    def _next(self) -> ToRuntime | None:
        if self._later and not self._sequences:
            return self._later.popleft()
        message = super()._next()
        if isinstance(message, Run) and self._sequences:
            self._later.append(message)
            return None
        return message


class Deaf(Server):
    """Nothing can be called off."""

    def _cancel(self, batch: int) -> None:
        del batch


class CallsOffAnything(Server):
    def _cancel(self, batch: int) -> None:
        self._waiting.discard(batch)
        self._send(frame_of(Failed("cancelled", "as you wish", batch)))


class StaysOnBye(Server):
    def _accept(self, message: ToRuntime) -> None:
        if not isinstance(message, Bye):
            super()._accept(message)


class StaysWithoutWorker(Server):
    def _send(self, frame: bytearray) -> None:
        with contextlib.suppress(OSError):
            super()._send(frame)

    def _finish(self, farewell: str | None = None) -> None:
        if farewell is not None:
            super()._finish(farewell)


class DiesOfSigterm(Server):
    def _finish(self, farewell: str | None = None) -> None:
        if farewell == "terminated":
            os._exit(15)
        super()._finish(farewell)


class LeavesItsWork(Server):
    """On SIGTERM it says so and goes, whatever it computes."""

    def _finish(self, farewell: str | None = None) -> None:
        if farewell == "terminated":
            self._connection.sendall(frame_of(Bye(farewell)))
            os._exit(0)
        super()._finish(farewell)


class ForgivesGarbage(Server):
    def serve(self) -> None:
        with contextlib.suppress(ProtocolError):
            super().serve()


# --- faults of how frames are read ------------------------------------------------------------


class OneRecvOneFrame(FrameReader):
    def received(self, count: int) -> Iterator[memoryview]:
        said = self.buffer()[:count]
        if int.from_bytes(said[:HEADER_BYTES], "big") != count - HEADER_BYTES:
            raise ProtocolError("no frame")
        yield memoryview(bytes(said[HEADER_BYTES:]))


def _counted(fits: Callable[[int, int], bool]) -> Callable[[Buffer], ToRuntime]:
    """Decodes messages whose number of fields, and that of those it knows, are as they should be."""

    def decode(frame: Buffer) -> ToRuntime:
        message = decode_to_runtime(frame)
        if not fits(len(msgspec.msgpack.decode(frame)) - 1, len(message.__struct_fields__)):
            raise ProtocolError("not the fields that I know")
        return message

    return decode


def _no_more_fields() -> None:
    vars(server)["decode_to_runtime"] = _counted(operator.le)


def _all_fields() -> None:
    vars(server)["decode_to_runtime"] = _counted(operator.ge)


def _any_length() -> None:
    vars(frames)["_checked"] = lambda length: length


def _one_recv() -> None:
    vars(server)["FrameReader"] = OneRecvOneFrame


#: Fault -> the check that finds it.
FINDS: dict[type[FakeRuntime] | type[Server] | Callable[[], None], str] = {
    OtherProtocol: "hello",
    CountsNothing: "stats",
    QueuesStats: "stats at once",
    _no_more_fields: "fields of later versions",
    _all_fields: "fields that are left out",
    _one_recv: "frames in pieces",
    Understates: "load and measured bytes",
    Holds: "load and measured bytes",
    Leaks: "unload gives memory back",
    KeepsTheOld: "load again",
    UnloadsAtOnce: "loads in order",
    LoadsInTurn: "batches beside a load",
    LoadsWhatIsBroken: "a load that fails",
    KnowsNoNames: "an unknown model",
    Mixes: "each item has its answer",
    LastFirst: "batches in order",
    FailsAll: "a bad item fails alone",
    TakesAnyHead: "a batch without sense",
    DiesOfLies: "an array that lies",
    Deaf: "cancel before it starts",
    CallsOffAnything: "cancel what is over",
    GeneratesInSecret: "sequences where none are taken",
    ByChance: "a sequence",
    TellsTheEnd: "an id that ends it",
    SilentOnTokens: "what is told of tokens",
    OneAfterTheOther: "one joins those under way",
    RefusesWhatHasNoPlace: "more than there are places",
    BatchesLast: "batches between passes",
    TakesEmptyPrompts: "a sequence without sense",
    IgnoresAdapters: "adapters where none are taken",
    AdaptsAll: "adapters",
    StaysOnBye: "bye",
    LeavesAChild: "bye",
    DiesOfSigterm: "sigterm",
    LeavesItsWork: "sigterm while it computes",
    StaysWithoutWorker: "its worker goes",
    ForgivesGarbage: "no message",
    _any_length: "a frame too long",
    OtherEachTime: "killed and started again",
}
#: More that some of them are found by.
MORE = [
    (UnloadsAtOnce, "unload waits for batches"),
    (UnloadsAtOnce, "unload waits for sequences"),
    (ByChance, "what is drawn"),
    (Deaf, "cancel a sequence"),
    (Deaf, "cancel one that waits"),
    (StaysWithoutWorker, "its worker goes while it computes"),
    (ForgivesGarbage, "an unknown message"),
    (ForgivesGarbage, "a message of its own"),
    (ForgivesGarbage, "a message that breaks off"),
    (StaysWithoutWorker, "a frame cut short"),
]
ROGUES = {fault.__name__: fault for fault in (*FINDS, Adapts)}


def main() -> None:
    fault = ROGUES[sys.argv[1]]
    path = dict(argument.split("=", 1) for argument in sys.argv[2:])["socket"]
    runtime, at_socket = FakeRuntime, Server
    if isinstance(fault, type) and issubclass(fault, FakeRuntime):
        runtime = fault
    elif isinstance(fault, type) and issubclass(fault, Server):
        at_socket = fault
    else:
        fault()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        die_with_parent()
        status = 0
        try:
            at_socket(connection, runtime()).serve()
        except ProtocolError:
            status = 1
    os._exit(status)


if __name__ == "__main__":
    main()

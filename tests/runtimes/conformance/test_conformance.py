"""What every runtime must do, whoever wrote it. `KINDS` is the list to add a new one to."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from shoal.runtimes.link import RuntimeProcess, RuntimeSpec
from shoal.wire import codec
from shoal.wire import socket as m
from shoal.wire.arrays import from_wire, to_wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

M = TypeVar("M", bound=codec.Message)
DEADLINE_S = 60.0  # a busy machine importing torch; nothing waits this long when all is well
BAD_TOKEN = 5000  # every kind below fails an item with it, and only that item
DIM = 8
MANY = 40


@dataclass(frozen=True)
class Kind:
    """A runtime and models of its: loads are complete but for the model's name.

    `slow_load` takes far longer to load than a batch of `load` to run.
    """

    name: str
    load: m.Load
    slow_load: m.Load


def fake(_: Path) -> tuple[m.Load, m.Load]:
    options = {"fail": BAD_TOKEN, "token_s": 1e-6}  # 6.4 ms for a `heavy` batch
    load = m.Load("", "", "fake", {"dense": {"dim": DIM}}, options=options)
    return load, msgspec.structs.replace(load, options=options | {"load_s": 0.2})


def torch(folder: Path) -> tuple[m.Load, m.Load]:
    """A BERT of two layers with random weights; its vocabulary ends below `BAD_TOKEN`."""
    return bert(folder / "small", 2, 16), bert(folder / "large", 24, 100_000)


def bert(folder: Path, layers: int, inner: int) -> m.Load:
    from safetensors.numpy import save_file

    folder.mkdir()
    config = {
        "model_type": "bert", "architectures": ["BertModel"], "vocab_size": 200,
        "hidden_size": DIM, "num_hidden_layers": layers, "num_attention_heads": 2,
        "intermediate_size": inner, "max_position_embeddings": 128, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "hidden_act": "gelu",
    }  # fmt: skip
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    save_file(random_bert(layers, inner), folder / "model.safetensors")
    head = {"dim": DIM, "pooling": "mean"}
    return m.Load("", str(folder), "bert", {"dense": head}, max_tokens=128)


def random_bert(layers: int, inner: int) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (200, DIM),
        "embeddings.position_embeddings.weight": (128, DIM),
        "embeddings.token_type_embeddings.weight": (2, DIM),
        "embeddings.LayerNorm": (DIM,),
    }
    for layer in (f"encoder.layer.{number}" for number in range(layers)):
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}.attention.{part}"] = (DIM, DIM)
        shapes[f"{layer}.attention.output.LayerNorm"] = (DIM,)
        shapes[f"{layer}.intermediate.dense"] = (inner, DIM)
        shapes[f"{layer}.output.dense"] = (DIM, inner)
        shapes[f"{layer}.output.LayerNorm"] = (DIM,)
    tensors = {}
    for name, shape in shapes.items():
        if name.endswith(".weight"):
            tensors[name] = random.normal(size=shape).astype(np.float32)
            continue
        tensors[f"{name}.weight"] = random.normal(size=shape).astype(np.float32)
        tensors[f"{name}.bias"] = random.normal(size=shape[:1]).astype(np.float32)
    return tensors


KINDS: dict[str, Callable[[Path], tuple[m.Load, m.Load]]] = {"fake": fake, "torch": torch}


@dataclass
class Session:
    """A started runtime process and what it said."""

    process: RuntimeProcess = field(init=False)
    hello: m.Hello = field(init=False)
    heard: asyncio.Queue[codec.Message] = field(default_factory=asyncio.Queue)
    exit: asyncio.Future[tuple[int, str]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @classmethod
    async def started(cls, kind: str) -> Session:
        session = cls()
        session.process = RuntimeProcess(
            RuntimeSpec(kind),
            session.heard.put_nowait,
            lambda status, words: session.exit.set_result((status, words)),
        )
        session.hello = await session.process.start(DEADLINE_S)
        return session

    async def hear(self, expected: type[M]) -> M:
        message = await asyncio.wait_for(self.heard.get(), DEADLINE_S)
        assert isinstance(message, expected), message
        return message

    async def ask(self, message: m.ToRuntime, expected: type[M]) -> M:
        self.process.send(message)
        return await self.hear(expected)


@pytest.fixture(scope="module", params=sorted(KINDS))
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kind:
    name = request.param
    return Kind(name, *KINDS[name](tmp_path_factory.mktemp(name)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(kind: Kind) -> AsyncIterator[Session]:
    """One process for all tests that leave it as it was, with the model ``base`` loaded."""
    session = await Session.started(kind.name)
    await session.ask(load(kind, "base"), m.Loaded)
    yield session
    await session.process.stop()
    assert not session.exit.done()


def load(kind: Kind, model: str, **changes: Any) -> m.Load:
    return msgspec.structs.replace(kind.load, model=model, **changes)


def run(batch: int, items: list[list[int]], model: str = "base", head: str = "dense") -> m.Run:
    tokens = np.array([token for item in items for token in item], np.int32)
    lengths = np.array([len(item) for item in items], np.int32)
    return m.Run(batch, model, [head], to_wire(tokens), to_wire(lengths))


def heavy(batch: int) -> m.Run:
    """`MANY` of these keep a runtime busy for far longer than a message takes to arrive."""
    return run(batch, [[1 + batch % 9] * 100] * 64)


def dense(done: m.Done) -> NDArray[np.float32]:
    return from_wire(done.arrays["dense"])


# --- what it says of itself ---------------------------------------------------------------


async def test_hello(kind: Kind, shared: Session) -> None:
    hello = shared.hello
    assert (hello.kind, hello.protocol, hello.device) == (kind.name, codec.PROTOCOL_VERSION, "cpu")
    assert kind.load.family in hello.capabilities.families
    assert hello.capabilities.batching in ("ours", "self")
    assert hello.capabilities.inputs in ("tokens", "text", "media")


async def test_stats(shared: Session) -> None:
    before = await shared.ask(m.AskStats(), m.Stats)
    assert before.models["base"] > 0
    assert before.rss_bytes > 1_000_000
    await shared.ask(run(1, [[1, 2]]), m.Done)
    after = await shared.ask(m.AskStats(), m.Stats)
    assert after.batches == before.batches + 1


async def test_stats_do_not_wait_for_the_batches_ahead(shared: Session) -> None:
    for batch in range(MANY):
        shared.process.send(heavy(batch))
    shared.process.send(m.AskStats())
    answers = [await shared.hear(codec.Message) for _ in range(MANY + 1)]
    assert isinstance(answers[-1], m.Done)


# --- models -------------------------------------------------------------------------------


async def test_load_reports_bytes_and_unload_gives_them_back(kind: Kind, shared: Session) -> None:
    loaded = await shared.ask(load(kind, "second"), m.Loaded)
    assert loaded.model == "second"
    assert loaded.bytes > 0
    assert loaded.seconds >= 0
    assert (await shared.ask(m.AskStats(), m.Stats)).models["second"] == loaded.bytes
    assert await shared.ask(m.Unload("second"), m.Unloaded) == m.Unloaded("second")
    assert "second" not in (await shared.ask(m.AskStats(), m.Stats)).models


async def test_batches_run_while_another_model_loads(kind: Kind, shared: Session) -> None:
    shared.process.send(msgspec.structs.replace(kind.slow_load, model="slow"))
    answers: list[codec.Message] = []
    while not answers or isinstance(answers[-1], m.Done):
        answers.append(await shared.ask(run(len(answers), [[1, 2]]), codec.Message))
    assert isinstance(answers[-1], m.Loaded)
    assert len(answers) > 3
    await shared.hear(m.Done)  # the batch that was sent last
    await shared.ask(m.Unload("slow"), m.Unloaded)


async def test_loads_and_unloads_are_done_in_order(kind: Kind, shared: Session) -> None:
    for message in (load(kind, "a"), load(kind, "b"), m.Unload("a"), m.Unload("b")):
        shared.process.send(message)
    for model in ("a", "b"):
        assert (await shared.hear(m.Loaded)).model == model
    for model in ("a", "b"):
        assert (await shared.hear(m.Unloaded)).model == model


async def test_unload_waits_for_the_models_own_batches(kind: Kind, shared: Session) -> None:
    await shared.ask(load(kind, "second"), m.Loaded)
    for batch in range(MANY):
        shared.process.send(msgspec.structs.replace(heavy(batch), model="second"))
    shared.process.send(m.CancelBatch(MANY - 1))
    shared.process.send(m.Unload("second"))
    answers = [await shared.hear(codec.Message) for _ in range(MANY + 1)]
    assert sum(isinstance(answer, m.Done) for answer in answers) == MANY - 1
    assert answers[-1] == m.Unloaded("second")


async def test_a_load_that_fails_says_why_and_harms_nothing(kind: Kind, shared: Session) -> None:
    broken = {
        "fake": load(kind, "broken", options={"load_error": "no such folder"}),
        "torch": load(kind, "broken", path="/no such folder"),
    }
    failed = await shared.ask(broken[kind.name], m.Failed)
    assert (failed.code, failed.model, failed.batch) == ("model_load_failed", "broken", None)
    assert "no such folder" in failed.message
    await shared.ask(run(1, [[1, 2]]), m.Done)


async def test_an_unknown_model(shared: Session) -> None:
    failed = await shared.ask(run(3, [[1]], model="bsae"), m.Failed)
    assert (failed.code, failed.batch, failed.model) == ("unknown_model", 3, None)
    assert "did you mean 'base'" in failed.message
    failed = await shared.ask(m.Unload("never-loaded"), m.Failed)
    assert (failed.code, failed.model) == ("unknown_model", "never-loaded")


async def test_an_adapter_where_none_are_taken_is_refused(shared: Session) -> None:
    assert not shared.hello.capabilities.lora
    for message in (m.AddAdapter("base", "a", "/a"), m.RemoveAdapter("base", "a")):
        failed = await shared.ask(message, m.Failed)
        assert (failed.code, failed.model) == ("invalid_request", "base")


# --- batches ------------------------------------------------------------------------------


async def test_a_batch_is_answered_in_order(shared: Session) -> None:
    items = [[5, 6, 7], [8], [9, 10, 11, 12]]
    done = await shared.ask(run(41, items), m.Done)
    vectors = dense(done)
    assert (done.batch, done.failed, vectors.shape) == (41, {}, (3, DIM))
    assert done.seconds > 0
    assert done.computed_tokens >= 8
    for item, vector in zip(items, vectors, strict=True):
        alone = dense(await shared.ask(run(42, [item]), m.Done))[0]
        np.testing.assert_allclose(alone, vector, atol=1e-4)
    assert not np.allclose(vectors[0], vectors[2], atol=1e-2)


async def test_batches_sent_ahead_are_answered_one_after_the_other(shared: Session) -> None:
    for batch in range(20):
        shared.process.send(run(batch, [[batch + 1]] * 3))
    answered = [(await shared.hear(m.Done)).batch for _ in range(20)]
    assert answered == list(range(20))


async def test_a_bad_item_fails_alone(shared: Session) -> None:
    good, bad = [5, 6, 7], [5, BAD_TOKEN]
    done = await shared.ask(run(1, [good, bad, good]), m.Done)
    assert list(done.failed) == [1]
    assert done.failed[1].message
    alone = dense(await shared.ask(run(2, [good]), m.Done))[0]
    np.testing.assert_allclose(dense(done)[[0, 2]], [alone, alone], atol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": None},
        {"lengths": to_wire(np.array([2, 2], np.int32))},
        {"lengths": to_wire(np.array([-1, 4], np.int32))},
        {"heads": ["no-such-head"]},
    ],
)
async def test_a_batch_that_makes_no_sense(shared: Session, change: dict[str, Any]) -> None:
    batch = msgspec.structs.replace(run(9, [[1, 2], [3]]), **change)
    failed = await shared.ask(batch, m.Failed)
    assert (failed.code, failed.batch) == ("invalid_request", 9)


async def test_an_array_that_lies_about_its_size(shared: Session) -> None:
    batch = run(9, [[1, 2], [3]])
    assert batch.tokens is not None
    lying = msgspec.structs.replace(batch.tokens, shape=(300,))
    failed = await shared.ask(msgspec.structs.replace(batch, tokens=lying), m.Failed)
    assert failed.batch == 9
    assert "needs 1200 bytes but 12 came" in failed.message


async def test_a_batch_cancelled_before_it_starts(shared: Session) -> None:
    for batch in range(MANY):
        shared.process.send(heavy(batch))
    shared.process.send(m.CancelBatch(MANY - 1))
    answers = [await shared.hear(codec.Message) for _ in range(MANY)]
    (failed,) = [answer for answer in answers if isinstance(answer, m.Failed)]
    assert (failed.code, failed.batch) == ("cancelled", MANY - 1)
    assert [answer.batch for answer in answers if isinstance(answer, m.Done)] == [*range(MANY - 1)]


async def test_cancelling_what_is_over_or_never_came_does_nothing(shared: Session) -> None:
    await shared.ask(run(1, [[1]]), m.Done)
    shared.process.send(m.CancelBatch(1))
    shared.process.send(m.CancelBatch(77))
    assert (await shared.ask(run(2, [[1]]), m.Done)).batch == 2


# --- the end ------------------------------------------------------------------------------


async def test_a_killed_runtime_is_reported_once_and_can_be_started_again(kind: Kind) -> None:
    session = await Session.started(kind.name)
    await session.ask(load(kind, "base"), m.Loaded)
    os.kill(session.process.pid, signal.SIGKILL)
    status, _ = await asyncio.wait_for(session.exit, DEADLINE_S)
    assert status == -signal.SIGKILL
    session.process.send(run(1, [[1]]))  # nobody hears it; on_exit has told

    again = await Session.started(kind.name)
    await again.ask(load(kind, "base"), m.Loaded)
    assert (await again.ask(run(1, [[1]]), m.Done)).batch == 1
    os.kill(again.process.pid, signal.SIGTERM)
    assert await asyncio.wait_for(again.exit, DEADLINE_S) == (0, "terminated")

"""Texts that are generated, through a broker, a worker and the fake runtime, which repeats its prompt."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from shoal.bench.processes import paused
from shoal.broker.server import BrokerServer
from shoal.errors import ErrorInfo
from shoal.gateway.growing import Growing
from shoal.settings import WorkerSettings
from shoal.tasks.generate.answer import Whole
from shoal.values import EncodeParams, GenerateParams
from shoal.wire.arrays import to_wire
from shoal.wire.objects import Generation, ToolCall
from shoal.wire.queue import Piece, Reply, Unit
from shoal.wire.socket import Chunk
from shoal.worker.service import Worker
from tests.worker.scripted import ScriptedGateway, until
from tests.worker.text.chats import of_bytes

CARD = """\
name: chat
source: {dir: .}
family: fake
tasks:
  encode: {dense: {dim: 8, pooling: mean, normalize: true}}
  generate:
    stop: [1]
    tools: hermes
    reasoning: ["<think>", "</think>"]
    chat_template: "{% if tools %}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}</s>"
max_tokens: 512
profiles: {default: {runtime: fake, sequences: 4, options: {new_token_s: TOKEN_S, token_s: 0.001}}}
"""
PROMPT = "the quick brown fox"
#: Of a model that repeats what it is told, an answer with all that there is.
SAID = """<think>
Two towns.
</think>

Wait.
<tool_call>
{"name": "weather", "arguments": {"city": "Köln"}}
</tool_call>
<tool_call>
{"name": "weather", "arguments": {}}
</tool_call>"""
TOLD = ("Wait.", "Two towns.", [ToolCall("weather", '{"city": "Köln"}'), ToolCall("weather", "{}")])
CHAT: dict[str, Any] = {
    "chat": True,
    "stream": True,
    "tools": '[{"type": "function", "function": {"name": "weather"}}]',
}


@dataclass
class Asking:
    """A gateway that asks one model."""

    gateway: ScriptedGateway
    worker: Worker
    units: list[Unit] = field(default_factory=list)

    async def publish(self, *items: object, budget_s: float = 60.0, **params: object) -> Unit:
        asked = GenerateParams(**({"temperature": 0.0} | params))  # type: ignore[arg-type]
        unit = await self.gateway.publish(
            [*items], budget_s, model="chat", task="generate", params=asked
        )
        self.units.append(unit)
        return unit

    async def answer(self, unit: Unit) -> list[Generation]:
        reply = await self.gateway.reply(unit)
        return generations(reply)

    def pieces(self, unit: Unit) -> list[Piece]:
        return [piece for piece in self.gateway.pieces if piece.unit == unit.id]

    @property
    def runtime(self) -> int:
        (process,) = self.worker._lanes._processes.values()
        return process.pid


def generations(reply: Reply) -> list[Generation]:
    assert reply.error is None
    assert not reply.errors
    return [msgspec.msgpack.decode(data, type=Generation) for data in reply.objects]


@pytest.fixture
async def ask(
    broker: BrokerServer,
    gateway: ScriptedGateway,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Asking]:
    """A parameter: seconds that a token takes."""
    token_s = getattr(request, "param", 0.005)
    (tmp_path / "chat.yaml").write_text(CARD.replace("TOKEN_S", str(token_s)))
    of_bytes().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text('{"bos_token_id": 0, "eos_token_id": 1}')
    settings = WorkerSettings(
        broker_url=broker.url, catalog=[str(tmp_path / "chat.yaml")], models=["chat"], ack_wait_s=1
    )
    worker = Worker(settings)
    await worker.start()
    chat = worker.core.models["chat"]
    await until(lambda: chat.state in ("resident", "failed"))
    assert chat.state == "resident", chat.reason
    yield Asking(gateway, worker)
    await worker.close()


async def test_a_text_is_generated_and_counted(ask: Asking) -> None:
    (told,) = await ask.answer(await ask.publish(PROMPT, max_tokens=6))
    assert told.finish == "length"
    assert (told.new_tokens, told.prompt_tokens) == (6, 1 + len(PROMPT))
    assert told.text == "the q"  # after the token that begins a text


async def test_a_model_that_generates_has_vectors_too(ask: Asking) -> None:
    text = await ask.publish(PROMPT, max_tokens=20)
    vectors = await ask.gateway.publish([PROMPT] * 6, 20.0, model="chat", params=EncodeParams())
    reply = await ask.gateway.reply(vectors)
    assert reply.outputs["dense"].shape == (6, 8)
    assert not reply.errors
    (told,) = await ask.answer(text)
    assert told.new_tokens == 20
    assert ask.worker.core.models["chat"].cost.new_tokens > 100, "vectors are no short texts"


async def test_the_pieces_of_a_stream_are_its_text(ask: Asking) -> None:
    unit = await ask.publish(PROMPT, max_tokens=8, stream=True)
    (told,) = await ask.answer(unit)
    pieces = ask.pieces(unit)
    assert len(pieces) > 3
    text = ""
    for piece in pieces:
        assert piece.at == len(text)
        text += piece.text
    assert told.text.startswith(text)
    assert len(told.text) - len(text) < 12


@pytest.fixture
def small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that takes messages of 64 kB: reading what fills those of 8 MiB takes seconds."""
    monkeypatch.setattr("shoal.broker.store.MAX_PAYLOAD_BYTES", 1 << 16)


async def test_a_piece_that_no_message_has_room_for_comes_with_the_answer(
    small_messages: None, ask: Asking
) -> None:
    seats, loop = ask.worker.core.lanes["cpu"].seats, ask.worker._loop
    with paused([ask.runtime]):
        unit = await ask.publish(PROMPT, max_tokens=40, stream=True)
        await until(lambda: len(seats) == 1)
        (batch,), most = seats, loop._replies._bus.max_payload
        assert most == 1 << 16
        loop.chunk("cpu", "fake", Chunk(batch, to_wire(np.full(most, 70, np.int32))))
    (told,) = await ask.answer(unit)
    assert len(told.text) >= most
    assert all(len(piece.text) < most for piece in ask.pieces(unit))


async def test_who_asked_for_no_stream_gets_no_pieces(ask: Asking) -> None:
    unit = await ask.publish(PROMPT, max_tokens=8)
    await ask.answer(unit)
    assert not ask.pieces(unit)


async def test_a_text_that_ends_it_frees_its_place(ask: Asking) -> None:
    unit = await ask.publish(PROMPT, max_tokens=40, stop=("brown",))
    (told,) = await ask.answer(unit)
    assert told.finish == "stop"
    assert "brown" not in told.text
    await until(lambda: not ask.worker.core.lanes["cpu"].seats)


async def test_items_of_a_unit_and_units_run_beside_each_other(ask: Asking) -> None:
    with paused([ask.runtime]):
        units = [await ask.publish(PROMPT, PROMPT, max_tokens=20) for _ in range(2)]
        await until(lambda: len(ask.worker.core.lanes["cpu"].seats) == 4)
    for unit in units:
        first, second = await ask.answer(unit)
        assert first.text == second.text


async def test_the_seed_decides(ask: Asking) -> None:
    sampled = {"max_tokens": 12, "temperature": 1.0}
    texts = [
        (await ask.answer(await ask.publish(PROMPT, seed=seed, **sampled)))[0].text
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


async def test_whom_nobody_waits_for_gives_its_place_back(ask: Asking) -> None:
    seats, units = ask.worker.core.lanes["cpu"].seats, ask.worker._loop.units
    with paused([ask.runtime]):
        unit = await ask.publish(PROMPT, max_tokens=400)
        await until(lambda: bool(seats))
        ask.gateway.cancel(unit)
        await until(lambda: unit.id not in units)
    await until(lambda: not seats)
    assert not ask.gateway.replies, "it was ended before it was whole"


async def test_a_prompt_that_is_too_long_is_an_error_of_its_own(ask: Asking) -> None:
    unit = await ask.publish("the " * 200, PROMPT, max_tokens=4)
    reply = await ask.gateway.reply(unit)
    assert list(reply.errors) == [0]
    assert len(reply.objects) == 1


async def test_a_runtime_that_dies_in_the_middle_loses_no_text(ask: Asking) -> None:
    unit = await ask.publish(PROMPT, max_tokens=40, stream=True, temperature=1.0, seed=5)
    await until(lambda: len(ask.pieces(unit)) > 5)
    os.kill(ask.runtime, signal.SIGKILL)
    (told,) = await ask.answer(unit)
    for piece in ask.pieces(unit):
        assert told.text[piece.at :].startswith(piece.text)
    assert told.new_tokens == 40


async def test_many_more_than_there_are_places(ask: Asking) -> None:
    units = [await ask.publish(f"{PROMPT} {n}", max_tokens=5) for n in range(30)]
    told = await asyncio.gather(*(ask.answer(unit) for unit in units))
    assert all(one.new_tokens == 5 for (one,) in told)


# --- what is told apart ---------------------------------------------------------------------------


async def conversation(ask: Asking, **params: Any) -> Unit:
    messages = {"messages": [{"role": "user", "content": SAID}]}
    return await ask.publish(messages, max_tokens=len(SAID.encode()) + 1, **CHAT, **params)


def parts_of(generation: Generation) -> tuple[str, str | None, list[ToolCall]]:
    return generation.text, generation.reasoning, generation.tool_calls


async def test_what_is_told_apart_comes_apart_as_it_is_written(ask: Asking) -> None:
    unit = await conversation(ask, apart=True)
    (told,) = await ask.answer(unit)
    assert (parts_of(told), told.finish) == (TOLD, "tool_calls")
    pieces = ask.pieces(unit)
    assert "".join(piece.text for piece in pieces) == "Wait."
    assert "".join(piece.reasoning for piece in pieces) == "Two towns."
    calls = [piece.call for piece in pieces if piece.call is not None]
    assert [call.name for call in calls if call.name is not None] == ["weather", "weather"]
    assert "".join(call.text for call in calls) == '{"city": "Köln"}{}'
    assert len(calls) > 10


async def test_where_it_is_not_wanted_apart_the_answer_alone_comes(ask: Asking) -> None:
    unit = await conversation(ask)
    (told,) = await ask.answer(unit)
    assert parts_of(told) == TOLD
    pieces = ask.pieces(unit)
    assert "".join(piece.text for piece in pieces) == "Wait."
    assert not [piece for piece in pieces if piece.reasoning or piece.call]


async def test_tokens_are_told_with_what_is_told_apart(ask: Asking) -> None:
    unit = await conversation(ask, apart=True, logprobs=0)
    (told,) = await ask.answer(unit)
    pieces = [piece for piece in ask.pieces(unit) if piece.told]
    assert [piece.told_at for piece in pieces] == list(range(len(pieces)))
    assert len(pieces) == len(told.logprobs or []) == len(SAID.encode())


@pytest.mark.parametrize("ask", [0.02], indirect=True)  # a second and a half after the call began
async def test_a_call_that_was_begun_before_its_runtime_died_is_neither_torn_nor_told_twice(
    ask: Asking,
) -> None:
    unit = await conversation(ask, apart=True)
    await until(lambda: any(piece.call is not None for piece in ask.pieces(unit)))
    os.kill(ask.runtime, signal.SIGKILL)
    (told,) = await ask.answer(unit)
    pieces, growing, whole = ask.pieces(unit), Growing(), Whole()
    names = [piece.call.name for piece in pieces if piece.call is not None and piece.call.name]
    assert len(names) > 2, "it was begun anew"
    for piece in pieces:
        growing.add(piece)
    growing.close(told)
    whole.add(growing.taken()[0])
    assert (whole.text, whole.reasoning, whole.calls) == parts_of(told) == TOLD


async def test_a_grammar_that_a_runtime_refuses_is_told_by_its_parameter(ask: Asking) -> None:
    loop = ask.worker._loop
    with paused([ask.runtime]):
        unit = await ask.publish(PROMPT, grammar=("regex", "("))
        await until(lambda: bool(loop._texts._running))
        (batch,) = loop._texts._running
        loop.batch_failed("cpu", batch, ErrorInfo("invalid_request", "the grammar is none"))
        reply = await ask.gateway.reply(unit)
    assert (reply.errors[0].code, reply.errors[0].param) == ("invalid_request", "regex")

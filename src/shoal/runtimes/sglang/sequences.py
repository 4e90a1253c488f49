"""Texts under way: each is one request that streams, on the loop; what they bring, the main thread tells."""

from __future__ import annotations

import asyncio
import secrets
import time
from concurrent.futures import Future
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Literal

import msgspec

from shoal.errors import ComputeFailed, InvalidRequest, ShoalError, TooManyTokens, Unavailable
from shoal.runtimes.sglang.answers import Answer, Finish, Meta, Text
from shoal.runtimes.sglang.client import BrokeOff, Gone
from shoal.runtimes.sglang.loop import Loop
from shoal.runtimes.sglang.model import Model
from shoal.runtimes.sglang.sampling import params_of
from shoal.wire.arrays import from_wire
from shoal.wire.socket import Chunk, Failed, Generate, Generated

Told = Chunk | Generated | Failed
#: How long a pass waits for something to come. What the worker sends meanwhile waits too.
_STEP_S = 0.005
#: Waits between tries of a text for which the server's queue had no room.
_AGAIN_S = (0.1, 0.3, 1.0, 3.0)


class Shares:
    """Seconds of a device that several use at once: each has an equal part of them. On the loop."""

    def __init__(self) -> None:
        self._using = 0
        self._each_s = 0.0
        self._at = 0.0

    def more(self, change: int) -> float:
        """From now on so many more, or fewer; what each has had by now that was always there."""
        now = time.perf_counter()
        self._each_s += (now - self._at) / max(1, self._using)
        self._at = now
        self._using += change
        return self._each_s


class _Sequence:
    """`begun`, `done`: the server sent something, or the last of it. `over`: nothing more is told."""

    def __init__(self, asked: Generate, model: Model, body: dict[str, Any]) -> None:
        self.batch = asked.batch
        self.model, self.body = model, body
        self.text = Text(asked.batch, asked.sampling)
        self.over = self.begun = self.done = False
        self.seconds = 0.0
        self.task: Future[None] | None = None


class Sequences:
    """All of a process, by number; methods are the main thread's."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._all: dict[int, _Sequence] = {}
        self._shares = Shares()
        self._brought: SimpleQueue[tuple[_Sequence, Answer | ShoalError]] = SimpleQueue()
        self._name = f"shoal-{secrets.token_hex(4)}"
        self._numbers = count()

    def begin(self, asked: Generate, model: Model) -> None:
        """Raises `InvalidRequest` for what the server cannot do, with its field."""
        sequence = _Sequence(asked, model, _body(asked, model))
        self._all[asked.batch] = sequence
        if sequence.body["sampling_params"]["max_new_tokens"]:
            sequence.task = self._loop.start(self._run(sequence))
        else:  # the server would generate one
            self._brought.put((sequence, Answer([], Meta(Finish("length")))))

    def step(self) -> list[Told]:
        """What came, in order."""
        told: list[Told] = []
        try:
            brought = self._brought.get(timeout=_STEP_S)
            while True:
                told += self._told(*brought)
                brought = self._brought.get_nowait()
        except Empty:
            return told

    def end(self, batch: int) -> Generated:
        """It ends here, and on the server."""
        return self._over(self._all[batch], "cancelled")

    def _rid(self) -> str:
        """Of one request: two seconds after its answer the server ends what has its name by then.

        The beginning of no other: in older versions an abort ends all that begin so.
        """
        return f"{self._name}-{next(self._numbers)}."

    def _told(self, sequence: _Sequence, brought: Answer | ShoalError) -> list[Told]:
        if sequence.over:
            return []
        error = brought if isinstance(brought, ShoalError) else brought.failure()
        try:
            if error is not None:
                raise error
            assert isinstance(brought, Answer)
            more = sequence.text.more(brought)
        except ShoalError as failure:
            self._over(sequence, "cancelled")
            return [Failed(failure.code, failure.message, sequence.batch)]
        told: list[Told] = [] if more.chunk is None else [more.chunk]
        if more.finish is not None:
            told.append(self._over(sequence, more.finish))
        return told

    def _over(
        self, sequence: _Sequence, finish: Literal["stop", "length", "cancelled"]
    ) -> Generated:
        del self._all[sequence.batch]
        sequence.over = True
        if sequence.task is not None and not sequence.done:
            sequence.task.cancel()
        text = sequence.text
        return Generated(
            sequence.batch, finish, text.new_tokens, sequence.seconds, text.cached_tokens
        )

    # --- on the loop ---------------------------------------------------------------------

    async def _run(self, sequence: _Sequence) -> None:
        """Its request, once there is a place, to the end."""
        model = sequence.model
        async with model.places:
            before = self._shares.more(+1)
            try:
                await self._bring(sequence, before)
            except ShoalError as error:
                if isinstance(error, Gone | BrokeOff):
                    await model.lost()  # if the server is, this process ends
                self._brought.put((sequence, error))
            except Exception as error:
                failure = ComputeFailed(f"{type(error).__name__}: {error}")
                self._brought.put((sequence, failure))
            finally:
                self._shares.more(-1)

    async def _bring(self, sequence: _Sequence, before: float) -> None:
        for wait_s in (*_AGAIN_S, None):
            try:
                full = await self._stream(sequence, before)
            except Unavailable:
                if wait_s is None or sequence.begun:
                    raise
                full = True
            if not full:
                return
            if wait_s is None:
                raise Unavailable("SGLang had no room for this text, five times")
            await asyncio.sleep(wait_s)

    async def _stream(self, sequence: _Sequence, before: float) -> bool:
        """Whether the server had no room for it; else all of it was brought."""
        client, rid = sequence.model.client, self._rid()
        try:
            async for answer in client.stream(sequence.body | {"rid": rid}):
                if answer.full and not sequence.begun:
                    return True
                sequence.begun = True
                sequence.seconds = self._shares.more(0) - before
                finish = answer.meta_info.finish_reason
                sequence.done = answer.error is not None or finish is not None
                self._brought.put((sequence, answer))
        except asyncio.CancelledError:
            await client.abort(rid)
            raise
        if not sequence.done:
            raise ComputeFailed(f"{client.url} ended a text in its middle")
        return False


def _body(asked: Generate, model: Model) -> dict[str, Any]:
    """The request. Raises `InvalidRequest`."""
    prompt = from_wire(asked.tokens).tolist()
    if not prompt:
        raise InvalidRequest("the prompt has no tokens")
    strange = next((token for token in prompt if not 0 <= token < model.vocabulary), None)
    if (
        strange is not None
    ):  # not every version looks, and a GPU's kernel that does not ends the server
        raise InvalidRequest(
            f"the prompt has token id {strange}; {asked.model} knows 0 to {model.vocabulary - 1}"
        )
    if len(prompt) > model.max_tokens:
        raise TooManyTokens(
            f"the prompt has {len(prompt)} tokens; {asked.model} takes {model.max_tokens}"
        )
    if asked.inputs:
        raise InvalidRequest(
            f"'{asked.model}' reads no images in the sglang runtime", param="items"
        )
    if asked.adapter is not None and asked.adapter not in model.adapters:
        raise InvalidRequest(f"'{asked.model}' has no adapter '{asked.adapter}'", param="adapter")
    room = min(asked.sampling.new_tokens, model.max_tokens - len(prompt))
    sampling = msgspec.structs.replace(asked.sampling, new_tokens=room)
    return {
        "input_ids": prompt,
        "sampling_params": params_of(sampling, model.able),
        "return_logprob": sampling.logprobs >= 0,
        "top_logprobs_num": max(0, sampling.logprobs),
        "lora_path": asked.adapter,
    }

"""A model that a server serves: found or started, tried once, and watched from then on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from shoal.errors import ComputeFailed, InvalidRequest, ModelLoadFailed, ShoalError
from shoal.runtimes.sglang.answers import Answer
from shoal.runtimes.sglang.client import Client, Gone
from shoal.runtimes.sglang.launched import Launched, command_of, free_port
from shoal.runtimes.sglang.loop import Loop
from shoal.runtimes.sglang.options import options_of
from shoal.runtimes.sglang.sampling import Able
from shoal.runtimes.sglang.served import Served, config_of, served_of
from shoal.spelling import nearest
from shoal.wire.socket import Load

_POLL_S = 0.2
#: How often the log hears that a server does not answer yet.
_PROGRESS_S = 10.0
#: Between two looks at a server that answered.
_WATCH_S = 5.0
#: Looks in a row after which a server that takes connections and generates nothing is given up: each
#: has waited some 20 s already.
_MISSES = 3
#: Far enough from 1 for likelihoods that are divided by it to be other ones.
_PROBED = 2.0


class Model:
    """A served model.

    Attributes:
        bytes: that it holds on its device, as the server says.
        able: what can be asked of it.
        places: for as many texts at once as it was loaded for; the server has a queue beyond.
        adapters: that were put on it here.
        max_tokens: of a prompt and its text.
        vocabulary: ids go from 0 up to it.
    """

    def __init__(self, load: Load, device: str, loop: Loop, give_up: Callable[[str], None]) -> None:
        """Blocks until the server answers. Raises `ModelLoadFailed` with the reason."""
        self._loop, self._give_up = loop, give_up
        self._options = options_of(load)
        self._config = config_of(Path(load.path))
        self.adapters: set[str] = set()
        self.max_tokens, self.vocabulary = load.max_tokens, self._config.vocab_size
        self._launched: Launched | None = None
        self._closing = self._lives = False
        url = self._options.url
        if self._options.command is not None:
            port = free_port()
            url = f"http://127.0.0.1:{port}"
            line = command_of(self._options.command, load, device, port)
            print(f"starting {' '.join(line)}", flush=True)
            self._launched = Launched(line, self._ended)
        assert url is not None, "one of the two was asked for"
        try:
            self.client, served = loop.do(self._found(url, load))
        except BaseException as error:
            if self._launched is not None:
                self._launched.stop()
            if isinstance(error, ShoalError):
                raise self._failed(error.message) from None
            raise
        self.served = served
        self.bytes = served.held_bytes(device)
        self._lives = True
        self._watching = loop.start(self._watch())

    def close(self) -> None:
        """Nothing is asked for any more; a server that was started here ends."""
        self._closing = True
        self._watching.cancel()
        self._loop.do(self._leave())
        if self._launched is not None:
            self._launched.stop()

    def add_adapter(self, name: str, path: str) -> None:
        """Raises `InvalidRequest` with the server's reason."""
        if self.served.enable_lora is False:
            raise InvalidRequest(
                "this SGLang server takes no adapters: start it with --enable-lora"
            )
        self._loop.do(self._put_on(name, path))
        self.adapters.add(name)

    def remove_adapter(self, name: str) -> None:
        """Waits for the texts that use it. Raises `InvalidRequest` with the server's reason."""
        if name not in self.adapters:
            raise InvalidRequest(f"there is no adapter '{name}'{nearest(name, self.adapters)}")
        self.adapters.remove(name)
        self._loop.do(self.client.unload_adapter(name))

    async def lost(self) -> None:
        """Look whether the server is still there, after it broke off; end the process if it is not."""
        for _ in range(_MISSES):
            try:
                await self.client.healthy()
                return
            except Gone as error:
                self._ended(error.message)
                return
            except ShoalError:  # a connection that was kept, and broke off with the others
                await asyncio.sleep(_POLL_S)

    async def _found(self, url: str, load: Load) -> tuple[Client, Served]:
        client = Client(url, self._options.key())
        try:
            await self._ready(client)
            served = served_of(await client.described())
            served.check(load, self._config, self._options.serves)
            async with asyncio.timeout(self._options.start_s):
                untempered = await _tells_untempered(client)
        except TimeoutError:
            await client.close()
            raise ModelLoadFailed(
                f"{url} generated no token in {self._options.start_s:g} s (start_s)"
            ) from None
        except BaseException:
            await client.close()
            raise
        self.able = Able(
            served.grammar_backend or "xgrammar",
            untempered,
            self._options.generated_repetition,
            served.enable_deterministic_inference,
        )
        # Made on the loop that uses it.
        self.places = asyncio.Semaphore(load.sequences)
        print(
            f"SGLang {served.version} at {url} serves {served.model_path}"
            + (
                ""
                if served.enable_deterministic_inference
                else "; it does not keep seeds, as it runs without --enable-deterministic-inference"
            ),
            flush=True,
        )
        return client, served

    async def _ready(self, client: Client) -> None:
        """Wait until it generates."""
        began = told = time.monotonic()
        while True:
            try:
                if await client.healthy():
                    return
                why = "it does not generate yet"
            except ShoalError as error:
                why = error.message
            now = time.monotonic()
            if self._launched is not None and self._launched.ended:
                raise ModelLoadFailed("the SGLang server ended while it started")
            if now - began > self._options.start_s:
                raise ModelLoadFailed(
                    f"no SGLang server at {client.url} after {self._options.start_s:g} s (start_s): {why}"
                )
            if now - told >= _PROGRESS_S:
                told = now
                print(f"waiting for {client.url} for {now - began:.0f} s: {why}", flush=True)
            await asyncio.sleep(_POLL_S)

    async def _watch(self) -> None:
        """Look after it until it is gone, or generates nothing any more."""
        misses = 0
        while misses < _MISSES:
            await asyncio.sleep(_WATCH_S)
            try:
                misses = 0 if await self.client.healthy() else misses + 1
            except Gone as error:
                self._ended(error.message)
                return
            except ShoalError:
                misses += 1
        self._ended(f"{self.client.url} generates nothing any more: {misses} looks in a row")

    async def _put_on(self, name: str, path: str) -> None:
        try:
            await self.client.load_adapter(name, path)
        except InvalidRequest as error:
            if self._launched is not None or "already" not in error.message:
                raise
            # A process before this one left it behind, maybe of another path.
            await self.client.unload_adapter(name)
            await self.client.load_adapter(name, path)

    async def _leave(self) -> None:
        for name in self.adapters if self._launched is None else ():
            try:
                await self.client.unload_adapter(name)
            except ShoalError as error:
                print(f"adapter '{name}' stays on the server: {error.message}", flush=True)
        await self.client.close()

    def _failed(self, why: str) -> ModelLoadFailed:
        tail = "" if self._launched is None else self._launched.last_lines()
        return ModelLoadFailed(f"{why}{tail}")

    def _ended(self, why: str) -> None:
        """While it starts, the load fails; from then on nothing can be computed here."""
        if self._lives and not self._closing:
            self._give_up(why)


async def _tells_untempered(client: Client) -> bool:
    """Whether likelihoods are those of before a temperature; and that it tells ids at all.

    Raises `ModelLoadFailed` for a server that does not.
    """
    cold, warm = [await _likelihoods(client, temperature) for temperature in (0.0, _PROBED)]
    return all(abs(a - b) < 1e-2 for a, b in zip(cold, warm, strict=True))


async def _likelihoods(client: Client, temperature: float) -> list[float]:
    """Of the likeliest tokens after a short prompt."""
    body = {
        "input_ids": [1, 2, 3],
        "sampling_params": {"max_new_tokens": 1, "temperature": temperature, "ignore_eos": True},
        "return_logprob": True,
        "top_logprobs_num": 2,
    }
    last: Answer | None = None
    try:
        async for answer in client.stream(body):
            last = answer
    except (ComputeFailed, InvalidRequest) as error:
        raise ModelLoadFailed(f"a token for a try: {error.message}") from None
    failure = None if last is None else last.failure()
    if last is None or not last.output_ids or failure is not None:
        why = (
            "no output_ids, which version 0.5 or newer has" if failure is None else failure.message
        )
        raise ModelLoadFailed(f"a token for a try: {why}")
    rows = last.meta_info.output_top_logprobs or [[]]
    return [value for value, _, _ in rows[0] or () if value is not None]

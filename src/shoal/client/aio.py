"""The asynchronous client: sends with `httpx.AsyncClient`, several requests by tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx
import numpy as np
from numpy.typing import NDArray

from shoal.client.api import Api, Model, policies
from shoal.client.encode import Encoded, EncodeOptions, dense_only, vectors_of
from shoal.client.extract import Extracted, ExtractOptions
from shoal.client.generate import Generated, GenerateOptions, Prompt, Prompts
from shoal.client.http import DEFAULT_URL, TIMED_OUT, Endpoint, answered
from shoal.client.items import DEFAULT_LIMITS, Given, Givens, Limits, listed
from shoal.client.job import Call, Job, Report
from shoal.client.progress import reporting
from shoal.client.protocol import Answered, Exchange, Finished, Lost, OnRetry, Retry, Send
from shoal.client.score import Scored, ScoreOptions
from shoal.client.stream import Reader
from shoal.errors import DeadlineExceeded, Unavailable
from shoal.wire.objects import Extraction, Generation

T = TypeVar("T")
R = TypeVar("R")

#: Checking so many takes about a millisecond; more are checked off the event loop.
MANY_ITEMS = 1000


class AsyncClient:
    """A gateway, for asyncio. Arguments are those of `Client`; keep one for each event loop."""

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout_s: float | None = None,
        retries: int = Retry().limit,
        limits: Limits = DEFAULT_LIMITS,
        http: httpx.AsyncClient | None = None,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._api = Api(*policies(timeout_s, retries, on_retry), limits)
        self._endpoint = Endpoint(base_url, api_key)
        self._own = http is None
        self._http = http or httpx.AsyncClient()

    async def encode(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[EncodeOptions],
    ) -> NDArray[Any]:
        """As `Client.encode`."""
        with reporting(progress, "encode") as report:
            make = partial(self._api.encode, Call(report), model, items, dense_only(options))
            return vectors_of(await self._run(make, items), items)

    async def encode_detailed(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[EncodeOptions],
    ) -> Encoded:
        """As `Client.encode_detailed`."""
        with reporting(progress, "encode") as report:
            make = partial(self._api.encode, Call(report, False), model, items, options)
            return await self._run(make, items)

    async def score(
        self,
        model: str,
        query: Given,
        documents: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ScoreOptions],
    ) -> NDArray[np.float32]:
        """As `Client.score`."""
        with reporting(progress, "score") as report:
            make = partial(self._api.score, Call(report), model, query, documents, options)
            return (await self._run(make, documents)).scores

    async def score_detailed(
        self,
        model: str,
        query: Given,
        documents: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ScoreOptions],
    ) -> Scored:
        """As `Client.score_detailed`."""
        with reporting(progress, "score") as report:
            make = partial(self._api.score, Call(report, False), model, query, documents, options)
            return await self._run(make, documents)

    async def extract(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ExtractOptions],
    ) -> list[Extraction]:
        """As `Client.extract`."""
        with reporting(progress, "extract") as report:
            make = partial(self._api.extract, Call(report), model, items, options)
            return (await self._run(make, items)).found

    async def extract_detailed(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ExtractOptions],
    ) -> Extracted:
        """As `Client.extract_detailed`."""
        with reporting(progress, "extract") as report:
            make = partial(self._api.extract, Call(report, False), model, items, options)
            return await self._run(make, items)

    async def generate(
        self,
        model: str,
        items: Prompts,
        *,
        progress: bool | Report = False,
        **options: Unpack[GenerateOptions],
    ) -> list[Generation]:
        """As `Client.generate`."""
        with reporting(progress, "generate") as report:
            job = self._api.generate(Call(report), model, items, options)
            return (await self._perform_all(job)).texts

    async def generate_detailed(
        self,
        model: str,
        items: Prompts,
        *,
        progress: bool | Report = False,
        **options: Unpack[GenerateOptions],
    ) -> Generated:
        """As `Client.generate_detailed`."""
        with reporting(progress, "generate") as report:
            job = self._api.generate(Call(report, False), model, items, options)
            return await self._perform_all(job)

    async def stream(
        self, model: str, item: Prompt, **options: Unpack[GenerateOptions]
    ) -> AsyncTextStream:
        """As `Client.stream`: ``async for text in await client.stream(…)``."""
        exchange = self._api.stream(model, item, options)
        step: Send | Finished[None] = exchange.begin(time.monotonic())
        while isinstance(step, Send):
            await asyncio.sleep(step.wait_s)
            begun = await self._begun(step)
            if isinstance(begun, AsyncTextStream):
                return begun
            step = exchange.handle(begun, time.monotonic())
        raise AssertionError("an error ends it")

    async def models(self) -> list[Model]:
        """All models the gateway serves."""
        return (await self._perform(self._api.models())).data

    async def model(self, name: str) -> Model:
        """One model. Raises `UnknownModel` naming the nearest."""
        return await self._perform(self._api.model(name))

    async def health(self) -> bool:
        """Whether the gateway process answers."""
        return await self._perform(self._api.health())

    async def ready(self) -> bool:
        """Whether the gateway and what is behind it can answer requests now."""
        return await self._perform(self._api.ready())

    async def aclose(self) -> None:
        """Close the connections."""
        if self._own:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _run(self, make: Callable[[], Job[T, R]], given: Givens) -> R:
        return await self._perform_all(make() if _quick(given) else await asyncio.to_thread(make))

    async def _perform_all(self, job: Job[T, R]) -> R:
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(job.in_flight):
                    tasks.create_task(self._drain(job))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return job.result()

    async def _drain(self, job: Job[T, R]) -> None:
        while (exchange := job.next()) is not None:
            job.settle(await self._perform(exchange))

    async def _perform(self, exchange: Exchange[T]) -> T:
        step: Send | Finished[T] = exchange.begin(time.monotonic())
        while isinstance(step, Send):
            await asyncio.sleep(step.wait_s)
            step = exchange.handle(await self._send(step), time.monotonic())
        return step.value

    async def _begun(self, send: Send) -> AsyncTextStream | Answered | Lost:
        deadline = time.monotonic() + send.timeout_s
        try:
            async with asyncio.timeout(send.timeout_s):
                request = self._endpoint.request(self._http, send)
                response = await self._http.send(request, stream=True)
                if response.is_success:
                    return AsyncTextStream(response, self._endpoint, deadline)
                async with aclosing(response):
                    return answered(response, await response.aread())
        except TimeoutError:
            return TIMED_OUT
        except httpx.RequestError as error:
            return self._endpoint.lost(error)

    async def _send(self, send: Send) -> Answered | Lost:
        try:
            async with asyncio.timeout(send.timeout_s):
                response = await self._http.send(self._endpoint.request(self._http, send))
        except TimeoutError:
            return TIMED_OUT
        except httpx.RequestError as error:
            return self._endpoint.lost(error)
        return answered(response, response.content)


class AsyncTextStream:
    """As `sync.TextStream`, with ``async for`` and ``async with``."""

    def __init__(self, response: httpx.Response, endpoint: Endpoint, deadline: float) -> None:
        self._response = response
        self._endpoint = endpoint
        self._deadline = deadline
        self._reader = Reader()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Raises `ShoalError` where the text does not come to its end."""
        async with self:
            try:
                async for chunk in self._response.aiter_raw():
                    for piece in self._reader.add(chunk):
                        yield piece
                    if time.monotonic() > self._deadline:
                        raise DeadlineExceeded("the text did not come to its end in time")
            except httpx.RequestError as error:
                raise Unavailable(self._endpoint.lost(error).reason) from None
        _ = self.generation  # raises where it broke off

    @property
    def generation(self) -> Generation:
        """The whole, once all pieces came. Raises `Unavailable` before, and where it broke off."""
        return self._reader.whole

    async def aclose(self) -> None:
        """End it: what nobody reads is not generated."""
        await self._response.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _quick(given: Givens) -> bool:
    """Whether items are checked at once: files are read, and images written."""
    items = listed(given)
    if not isinstance(items, list | tuple) or len(items) >= MANY_ITEMS:
        return False
    return all(isinstance(item, str | list | bytes) for item in items)

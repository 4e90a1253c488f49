"""The asynchronous client: sends with `httpx.AsyncClient`, several requests by tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx
import numpy as np
from numpy.typing import NDArray

from shoal.client.api import Api, Model
from shoal.client.encode import Encoded, EncodeOptions, dense_only, vectors_of
from shoal.client.extract import Extracted, ExtractOptions
from shoal.client.http import DEFAULT_URL, TIMED_OUT, Endpoint, answered
from shoal.client.items import DEFAULT_LIMITS, Given, Givens, Limits, listed
from shoal.client.job import Call, Job, Report
from shoal.client.progress import reporting
from shoal.client.protocol import (
    Answered,
    Exchange,
    Finished,
    Lost,
    OnRetry,
    Policy,
    Retry,
    Send,
)
from shoal.client.score import Scored, ScoreOptions
from shoal.wire.objects import Extraction

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
        timeout_s: float = 60.0,
        retries: int = Retry().limit,
        limits: Limits = DEFAULT_LIMITS,
        http: httpx.AsyncClient | None = None,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._api = Api(Policy(timeout_s, Retry(retries), on_retry=on_retry), limits)
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
        job = make() if _quick(given) else await asyncio.to_thread(make)
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

    async def _send(self, send: Send) -> Answered | Lost:
        try:
            async with asyncio.timeout(send.timeout_s):
                response = await self._http.send(self._endpoint.request(self._http, send))
        except TimeoutError:
            return TIMED_OUT
        except httpx.RequestError as error:
            return self._endpoint.lost(error)
        return answered(response, response.content)


def _quick(given: Givens) -> bool:
    """Whether items are checked at once: files are read, and images written."""
    items = listed(given)
    if not isinstance(items, list | tuple) or len(items) >= MANY_ITEMS:
        return False
    return all(isinstance(item, str | list | bytes) for item in items)

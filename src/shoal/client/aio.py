"""The asynchronous client: sends with `httpx.AsyncClient`, several requests by tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

import httpx

from shoal.client.api import Api
from shoal.client.closing import AsyncClosing
from shoal.client.generate import GenerateOptions, Prompt
from shoal.client.http import TIMED_OUT, answered
from shoal.client.items import Givens, listed
from shoal.client.job import Job
from shoal.client.models import Model
from shoal.client.plan import Plan
from shoal.client.progress import reporting
from shoal.client.protocol import Answered, Exchange, Finished, Lost, Send
from shoal.client.shell import Shell, described
from shoal.client.text_stream import AsyncTextStream

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

#: Checking so many takes about a millisecond; more are checked off the event loop.
MANY_ITEMS = 1000


def _awaited(
    plan: Callable[Concatenate[Api, P], Plan[R]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]:
    """The client's method that does what is planned."""

    async def method(client: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await client._call(plan(client._api, *args, **kwargs))

    return described(method, plan)


class AsyncClient(Shell[httpx.AsyncClient], AsyncClosing):
    """A gateway, for asyncio. Arguments are those of `Client`; keep one for each event loop."""

    encode = _awaited(Api.encode)
    encode_detailed = _awaited(Api.encode_detailed)
    score = _awaited(Api.score)
    score_detailed = _awaited(Api.score_detailed)
    extract = _awaited(Api.extract)
    extract_detailed = _awaited(Api.extract_detailed)
    generate = _awaited(Api.generate)
    generate_detailed = _awaited(Api.generate_detailed)

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

    def _connections(self) -> httpx.AsyncClient:
        return httpx.AsyncClient()

    async def _call(self, plan: Plan[R]) -> R:
        with reporting(plan.progress, plan.task) as report:
            quick = _quick(plan.slow)
            job = plan.job(report) if quick else await asyncio.to_thread(plan.job, report)
            return plan.take(await self._run(job))

    async def _run(self, job: Job[T, R]) -> R:
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


def _quick(given: Givens) -> bool:
    """Whether items are checked at once: files are read, and images written."""
    items = listed(given)
    if not isinstance(items, list | tuple) or len(items) >= MANY_ITEMS:
        return False
    return all(isinstance(item, str | list | bytes) for item in items)

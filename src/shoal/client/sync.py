"""The blocking client: sends with `httpx.Client`, sleeps on an event, several requests by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack

import httpx

from shoal.client.api import Api
from shoal.client.closing import Closing
from shoal.client.generate import GenerateOptions, Prompt
from shoal.client.http import TIMED_OUT, answered
from shoal.client.job import Job
from shoal.client.models import Model
from shoal.client.plan import Plan
from shoal.client.progress import reporting
from shoal.client.protocol import Answered, Exchange, Finished, Lost, Send
from shoal.client.question import Answers
from shoal.client.shell import Shell, described
from shoal.client.text_stream import TextStream
from shoal.errors import RequestCancelled

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def _blocking(plan: Callable[Concatenate[Api, P], Plan[R]]) -> Callable[Concatenate[Client, P], R]:
    """The client's method that does what is planned."""

    def method(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return client._call(plan(client._api, *args, **kwargs))

    return described(method, plan)


class Client(Shell[httpx.Client], Closing):
    """A gateway, for blocking code. Thread-safe; keep one, so that connections are reused.

    Args:
        base_url: where the gateway is.
        api_key: sent as ``Authorization: Bearer``.
        timeout_s: most seconds that one request may take, its retries and waits included; 60
            where nothing is said, 300 to generate. A large input is many requests, each with
            this budget.
        retries: most resends of one request; 0 for none.
        limits: size and number of the requests a large input is cut into.
        http: an httpx client of your own, for proxies, certificates and the like; you close it.
        on_retry: called with (why, seconds until then) before a request is sent again.
    """

    encode = _blocking(Api.encode)
    encode_detailed = _blocking(Api.encode_detailed)
    score = _blocking(Api.score)
    score_detailed = _blocking(Api.score_detailed)
    extract = _blocking(Api.extract)
    extract_detailed = _blocking(Api.extract_detailed)
    generate = _blocking(Api.generate)
    generate_detailed = _blocking(Api.generate_detailed)

    def stream(self, model: str, item: Prompt, **options: Unpack[GenerateOptions]) -> TextStream:
        """The pieces of one text as they are generated; see `TextStream`.

        Raises:
            ShoalError: the request failed before anything came of it.
        """
        exchange = self._api.stream(model, item, options)
        step: Send | Finished[None] = exchange.begin(time.monotonic())
        while isinstance(step, Send):
            time.sleep(step.wait_s)
            begun = self._begun(step)
            if isinstance(begun, TextStream):
                return begun
            step = exchange.handle(begun, time.monotonic())
        raise AssertionError("an error ends it")

    def models(self) -> list[Model]:
        """All models the gateway serves."""
        return self._perform(self._api.models()).data

    def model(self, name: str) -> Model:
        """One model. Raises `UnknownModel` naming the nearest."""
        return self._perform(self._api.model(name))

    def health(self) -> bool:
        """Whether the gateway process answers."""
        return self._perform(self._api.health())

    def ready(self) -> bool:
        """Whether the gateway and what is behind it can answer requests now."""
        return self._perform(self._api.ready())

    def close(self) -> None:
        """Close the connections."""
        if self._own:
            self._http.close()

    def _connections(self) -> httpx.Client:
        return httpx.Client()

    def _call(self, plan: Plan[R]) -> R:
        with reporting(plan.progress, plan.task) as report:
            return plan.take(self._run(plan.job(report)))

    def _run(self, job: Job[T, R]) -> R:
        run = _Run(job)
        if job.in_flight <= 1:
            self._drain(run)
            return job.result()
        pool = ThreadPoolExecutor(job.in_flight, "shoal-client")
        try:
            threads = [pool.submit(self._drain, run) for _ in range(job.in_flight)]
            for thread in wait(threads, return_when=FIRST_EXCEPTION).done:
                thread.result()
        finally:
            # On an error or Ctrl-C what is under way is left to end by itself, unheard.
            run.stopped.set()
            pool.shutdown(wait=False)
        return job.result()

    def _drain(self, run: _Run[T]) -> None:
        while (exchange := run.next()) is not None:
            run.settle(self._perform(exchange, run.stopped))

    def _perform(self, exchange: Exchange[T], stopped: threading.Event | None = None) -> T:
        stopped = stopped or threading.Event()
        step: Send | Finished[T] = exchange.begin(time.monotonic())
        while isinstance(step, Send):
            if stopped.wait(step.wait_s):
                raise RequestCancelled("another request of the same call failed")
            step = exchange.handle(self._send(step), time.monotonic())
        return step.value

    def _begun(self, send: Send) -> TextStream | Answered | Lost:
        """A stream that has begun, or what came in its place."""
        deadline = time.monotonic() + send.timeout_s
        try:
            request = self._endpoint.request(self._http, send)
            response = self._http.send(request, stream=True)
            if response.is_success:
                return TextStream(response, self._endpoint, deadline)
            with closing(response):
                return answered(response, response.read())
        except httpx.RequestError as error:
            return self._endpoint.lost(error)

    def _send(self, send: Send) -> Answered | Lost:
        deadline = time.monotonic() + send.timeout_s
        body = bytearray()
        try:
            request = self._endpoint.request(self._http, send)
            with closing(self._http.send(request, stream=True)) as response:
                # httpx bounds each read; an answer that drips must be bounded as a whole.
                for chunk in response.iter_bytes():
                    body += chunk
                    if time.monotonic() > deadline:
                        return TIMED_OUT
        except httpx.RequestError as error:
            return self._endpoint.lost(error)
        return answered(response, bytes(body))


class _Run(Generic[T]):
    """A job that threads share; once `stopped`, nothing more is begun or settled."""

    def __init__(self, job: Job[T, Any]) -> None:
        self._job = job
        self._lock = threading.Lock()
        self.stopped = threading.Event()

    def next(self) -> Exchange[Answers[T]] | None:
        with self._lock:
            return None if self.stopped.is_set() else self._job.next()

    def settle(self, answers: Answers[T]) -> None:
        with self._lock:
            if not self.stopped.is_set():
                self._job.settle(answers)

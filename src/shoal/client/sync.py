"""The blocking client: sends with `httpx.Client`, sleeps on an event, several requests by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import httpx
import numpy as np
from numpy.typing import NDArray

from shoal.client.api import Api, Model, policies
from shoal.client.encode import Encoded, EncodeOptions, dense_only, vectors_of
from shoal.client.extract import Extracted, ExtractOptions
from shoal.client.generate import Generated, GenerateOptions, Prompt, Prompts
from shoal.client.http import DEFAULT_URL, TIMED_OUT, Endpoint, answered
from shoal.client.items import DEFAULT_LIMITS, Given, Givens, Limits
from shoal.client.job import Call, Job, Report
from shoal.client.progress import reporting
from shoal.client.protocol import Answered, Exchange, Finished, Lost, OnRetry, Retry, Send
from shoal.client.question import Answers
from shoal.client.score import Scored, ScoreOptions
from shoal.client.stream import Reader
from shoal.errors import DeadlineExceeded, RequestCancelled, Unavailable
from shoal.wire.objects import Extraction, Generation

T = TypeVar("T")
R = TypeVar("R")


class Client:
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

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout_s: float | None = None,
        retries: int = Retry().limit,
        limits: Limits = DEFAULT_LIMITS,
        http: httpx.Client | None = None,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._api = Api(*policies(timeout_s, retries, on_retry), limits)
        self._endpoint = Endpoint(base_url, api_key)
        self._own = http is None
        self._http = http or httpx.Client()

    def encode(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[EncodeOptions],
    ) -> NDArray[Any]:
        """Dense vectors of `items` in their order: [n, dim], or [dim] for a single one.

        Args:
            model: name of a model the gateway serves.
            items: a string, strings, lists of token ids; or, for models that take images or audio,
                the `bytes` or `Path` of a file, an image of Pillow's, an array of pixels.
            progress: show a bar on stderr, or call a function with (answered, in all).
            options: see `EncodeOptions`.

        Raises:
            ShoalError: the request or one of its items failed; the class says why.
        """
        with reporting(progress, "encode") as report:
            job = self._api.encode(Call(report), model, items, dense_only(options))
            return vectors_of(self._run(job), items)

    def encode_detailed(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[EncodeOptions],
    ) -> Encoded:
        """As `encode`, of all outputs, with token counts, what was truncated, and errors by item.

        Raises:
            ShoalError: a request failed as a whole.
        """
        with reporting(progress, "encode") as report:
            return self._run(self._api.encode(Call(report, False), model, items, options))

    def score(
        self,
        model: str,
        query: Given,
        documents: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ScoreOptions],
    ) -> NDArray[np.float32]:
        """How well each document answers the query: float32 [n], in their order.

        Raises:
            ShoalError: the request or one of the documents failed; the class says why.
        """
        with reporting(progress, "score") as report:
            return self._run(self._api.score(Call(report), model, query, documents, options)).scores

    def score_detailed(
        self,
        model: str,
        query: Given,
        documents: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ScoreOptions],
    ) -> Scored:
        """As `score`, with token counts, what was truncated, and errors document by document.

        Raises:
            ShoalError: a request failed as a whole.
        """
        with reporting(progress, "score") as report:
            return self._run(self._api.score(Call(report, False), model, query, documents, options))

    def extract(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ExtractOptions],
    ) -> list[Extraction]:
        """Entities, labels or a transcript of each item, in their order.

        Raises:
            ShoalError: the request or one of its items failed; the class says why.
        """
        with reporting(progress, "extract") as report:
            return self._run(self._api.extract(Call(report), model, items, options)).found

    def extract_detailed(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ExtractOptions],
    ) -> Extracted:
        """As `extract`, with token counts, what was truncated, and errors item by item.

        Raises:
            ShoalError: a request failed as a whole.
        """
        with reporting(progress, "extract") as report:
            return self._run(self._api.extract(Call(report, False), model, items, options))

    def generate(
        self,
        model: str,
        items: Prompts,
        *,
        progress: bool | Report = False,
        **options: Unpack[GenerateOptions],
    ) -> list[Generation]:
        """What follows each text, or is answered in each conversation, in their order.

        Args:
            items: a text or a conversation, or a list of them. A conversation is a list of messages,
                ``{"role": "user", "content": "…"}``.

        Raises:
            ShoalError: the request or one of its items failed; the class says why.
        """
        with reporting(progress, "generate") as report:
            return self._run(self._api.generate(Call(report), model, items, options)).texts

    def generate_detailed(
        self,
        model: str,
        items: Prompts,
        *,
        progress: bool | Report = False,
        **options: Unpack[GenerateOptions],
    ) -> Generated:
        """As `generate`, with token counts, and errors item by item.

        Raises:
            ShoalError: a request failed as a whole.
        """
        with reporting(progress, "generate") as report:
            return self._run(self._api.generate(Call(report, False), model, items, options))

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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


class TextStream:
    """The pieces of a text as they come. Iterate over it; close it, or leave its `with`, to end it early."""

    def __init__(self, response: httpx.Response, endpoint: Endpoint, deadline: float) -> None:
        self._response = response
        self._endpoint = endpoint
        self._deadline = deadline
        self._reader = Reader()

    def __iter__(self) -> Iterator[str]:
        """Raises `ShoalError` where the text does not come to its end."""
        with self:
            try:
                for chunk in self._response.iter_raw():
                    yield from self._reader.add(chunk)
                    if time.monotonic() > self._deadline:
                        raise DeadlineExceeded("the text did not come to its end in time")
            except httpx.RequestError as error:
                raise Unavailable(self._endpoint.lost(error).reason) from None
        _ = self.generation  # raises where it broke off

    @property
    def generation(self) -> Generation:
        """The whole, once all pieces came. Raises `Unavailable` before, and where it broke off."""
        return self._reader.whole

    def close(self) -> None:
        """End it: what nobody reads is not generated."""
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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

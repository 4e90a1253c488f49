"""Every Prometheus metric of Shoal, by process; the one place where names and buckets are decided.

Shells call one method per happening, in the caller's words; nobody else touches the Prometheus
client. A `model` label must be the name of a known model: labels made of what callers type would
grow without bound. `render` takes milliseconds with hundreds of models: call it off the event loop.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from shoal.wire.queue import Timings

M = TypeVar("M", Counter, Gauge, Histogram)

# From an encode of one short text on a GPU to the longest deadline.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600)
_ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_TOKENS = (64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
_FILL = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25)
_RELATIVE_ERROR = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 1, 2, 5)


class _Labelled(dict[tuple[str, ...], M], Generic[M]):
    """Label values -> the metric bound to them: the client's own `labels` costs five times more."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self._metric: M = metric

    def __missing__(self, values: tuple[str, ...]) -> M:
        bound: M = self._metric.labels(*values)
        self[values] = bound
        return bound


class Metrics:
    """What both processes have; the base of the two classes below."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._broker_connected = self._gauge("broker_connected", "1 while connected to the broker.")
        self._errors = _Labelled(self._counter("errors", "Errors by code.", "code"))

    def broker_connected(self, connected: bool) -> None:
        self._broker_connected.set(connected)

    def error(self, code: str) -> None:
        """`code` of a `ShoalError`."""
        self._errors[(code,)].inc()

    def render(self) -> tuple[bytes, str]:
        """(body, content type) of ``/metrics``."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"shoal_{self._process}_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"shoal_{self._process}_{name}", text, labels, registry=self._registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        full = f"shoal_{self._process}_{name}"
        return Histogram(full, text, labels, registry=self._registry, buckets=buckets)


class GatewayMetrics(Metrics):
    """`shoal gateway`."""

    def __init__(self) -> None:
        super().__init__("gateway")
        counter, gauge = self._counter, self._gauge
        self._requests = _Labelled(
            counter("requests", "Requests by route and HTTP status.", "route", "status")
        )
        self._seconds = _Labelled(
            self._histogram("request_seconds", "From request to response.", _SECONDS, "route")
        )
        self._items = _Labelled(counter("items", "Items answered.", "model"))
        self._tokens = _Labelled(
            counter("tokens", "Tokens of items that were answered, and generated ones.", "model")
        )
        self._units = gauge("outstanding_units", "Units admitted that nobody answered yet.")
        self._outstanding = _Labelled(
            gauge(
                "outstanding_seconds",
                "Predicted seconds of work admitted, not done, by where it is: interactive work on "
                "the queue or still in the gateway, or bulk.",
                "model",
                "where",
            )
        )
        self._payloads = _Labelled(
            counter("payloads", "Items too large for the queue, by what became of them.", "outcome")
        )
        self._duplicates = counter("duplicate_replies", "Replies dropped: answered before.")

    def request(self, route: str, status: int, seconds: float) -> None:
        """A response was sent. `route` is the pattern (``/v1/encode/{model}``), not the path."""
        self._requests[(route, str(status))].inc()
        self._seconds[(route,)].observe(seconds)

    def answered(self, model: str, items: int, tokens: int) -> None:
        """A request was answered."""
        self._items[(model,)].inc(items)
        self._tokens[(model,)].inc(tokens)

    def outstanding_units(self, units: int) -> None:
        self._units.set(units)

    def outstanding_seconds(
        self, model: str, work_s: float, queued_s: float = 0.0, bulk_s: float = 0.0
    ) -> None:
        """`queued_s`: what of `work_s` is on the queue; the rest waits in the gateway."""
        self._outstanding[(model, "queue")].set(queued_s)
        self._outstanding[(model, "gateway")].set(work_s - queued_s)
        self._outstanding[(model, "bulk")].set(bulk_s)

    def payload(self, outcome: str, count: int = 1) -> None:
        """Items were ``uploaded``, ``failed`` to be, or ``swept`` after a crash."""
        self._payloads[(outcome,)].inc(count)

    def duplicate_reply(self) -> None:
        self._duplicates.inc()


class WorkerMetrics(Metrics):
    """`shoal worker`."""

    def __init__(self) -> None:
        super().__init__("worker")
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        self._queue = _Labelled(
            histogram("queue_seconds", "Published until delivered.", _SECONDS, "model")
        )
        self._prepare = _Labelled(
            histogram("prepare_seconds", "Decoding and tokenizing a unit.", _SECONDS, "model")
        )
        self._wait = _Labelled(
            histogram("wait_seconds", "A unit on the worker's shelf.", _SECONDS, "model")
        )
        self._compute = _Labelled(
            histogram("compute_seconds", "A batch in the runtime.", _SECONDS, "model")
        )
        self._batch_items = _Labelled(
            histogram("batch_items", "Items in a batch.", _ITEMS, "model")
        )
        self._batch_tokens = _Labelled(
            histogram("batch_tokens", "Tokens in a batch, without padding.", _TOKENS, "model")
        )
        self._fill = _Labelled(
            histogram("batch_fill_ratio", "Share of the batch's budget used.", _FILL, "model")
        )
        self._tokens = _Labelled(counter("tokens", "Tokens of items computed.", "model"))
        self._computed = _Labelled(
            counter("computed_tokens", "The same with padding: the difference is waste.", "model")
        )
        self._relative_error = _Labelled(
            histogram(
                "prediction_error_ratio",
                "How far predicted batch seconds were off, as a share of the actual ones.",
                _RELATIVE_ERROR,
                "model",
            )
        )
        self._running_error = _Labelled(
            gauge(
                "prediction_error",
                "The same, of the latest batches: about their median and their 90th percentile.",
                "model",
                "quantile",
            )
        )
        self._units = _Labelled(counter("units", "Units by how they ended.", "model", "outcome"))
        self._redelivered = counter("redeliveries", "Units that came a second time or later.")
        self._dead = _Labelled(counter("dead_letters", "Units set aside as poison.", "model"))
        self._dead_lost = counter("dead_letters_not_kept", "Dead letters that were not stored.")
        self._held = gauge("units_held", "Units delivered and not yet answered or given back.")
        self._pulls = _Labelled(counter("pulls", "Pulls by how they ended.", "outcome"))
        self._resident = gauge("resident_models", "Models in memory, over all lanes.")
        self._resident_bytes = _Labelled(
            gauge("resident_bytes", "Memory of a model, as its runtime measured.", "lane", "model")
        )
        self._evictions = _Labelled(
            counter("evictions", "Models let go to make room.", "lane", "model")
        )
        self._claims = _Labelled(
            counter("claims", "Claims of models asked for, by their answer.", "outcome")
        )
        self._recycles = _Labelled(
            counter("runtime_recycles", "Runtimes started anew for their memory.", "lane", "kind")
        )
        self._memory = _Labelled(
            gauge(
                "lane_bytes",
                "Bytes of a lane: held by models now and at most so far, their budget, resident in its "
                "processes.",
                "lane",
                "what",
            )
        )
        self._loads = _Labelled(counter("loads", "Model loads by outcome.", "model", "outcome"))
        self._load_seconds = _Labelled(
            histogram("load_seconds", "Loading a model.", _SECONDS, "model")
        )

    def delivered(self, delivery: int) -> None:
        """A unit came; `delivery` is 1 the first time."""
        if delivery > 1:
            self._redelivered.inc()

    def unit(self, model: str, outcome: str, timings: Timings | None = None) -> None:
        """A unit ended: ``answered``, ``failed``, ``returned``, ``expired``, ``cancelled``, …"""
        self._units[(model, outcome)].inc()
        if timings is not None:
            self._queue[(model,)].observe(timings.queue_s)
            self._prepare[(model,)].observe(timings.prepare_s)
            self._wait[(model,)].observe(timings.wait_s)

    def batch(self, model: str, items: int, tokens: int, computed_tokens: int, fill: float) -> None:
        """A batch was computed; `fill` is predicted seconds over the budget of a batch."""
        key = (model,)
        self._batch_items[key].observe(items)
        self._batch_tokens[key].observe(tokens)
        self._fill[key].observe(fill)
        self._tokens[key].inc(tokens)
        self._computed[key].inc(computed_tokens)

    def predicted(self, model: str, predicted_s: float, actual_s: float) -> None:
        """What a batch was expected to take, and took."""
        self._compute[(model,)].observe(actual_s)
        if actual_s > 0:
            self._relative_error[(model,)].observe(abs(predicted_s - actual_s) / actual_s)

    def prediction_errors(self, model: str, p50: float, p90: float) -> None:
        """Running relative errors of the cost model."""
        self._running_error[(model, "0.5")].set(p50)
        self._running_error[(model, "0.9")].set(p90)

    def dead_letter(self, model: str) -> None:
        self._dead[(model,)].inc()

    def dead_letter_not_kept(self) -> None:
        self._dead_lost.inc()

    def units_held(self, units: int) -> None:
        self._held.set(units)

    def pull(self, outcome: str) -> None:
        """A pull ended, for one of the reasons in `shoal.broker.base.PullEnd`."""
        self._pulls[(outcome,)].inc()

    def resident_models(self, models: int) -> None:
        self._resident.set(models)

    def loaded(self, lane: str, model: str, count: int, seconds: float) -> None:
        """A model became resident and takes `count` bytes."""
        self._loads[(model, "loaded")].inc()
        self._load_seconds[(model,)].observe(seconds)
        self._resident_bytes[(lane, model)].set(count)

    def evicted(self, lane: str, model: str) -> None:
        """A model was let go."""
        self._evictions[(lane, model)].inc()
        self._resident_bytes[(lane, model)].set(0)

    def claim(self, outcome: str) -> None:
        """A claim was ``granted`` or ``refused``."""
        self._claims[(outcome,)].inc()

    def recycled(self, lane: str, kind: str) -> None:
        self._recycles[(lane, kind)].inc()

    def lane_memory(self, lane: str, **bytes_: int) -> None:
        """Bytes of one lane: `held`, `most` so far, `budget` (0: none), `rss`."""
        for what, count in bytes_.items():
            self._memory[(lane, what)].set(count)

    def load_failed(self, model: str) -> None:
        self._loads[(model, "failed")].inc()

    def lost(self, lane: str, models: set[str]) -> None:
        """A runtime ended, and these models with it if they were resident there."""
        for key in [(lane, model) for model in models]:
            if key in self._resident_bytes:
                self._resident_bytes[key].set(0)

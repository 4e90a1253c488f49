"""What a worker counts and logs: one call per happening, from the shell."""

from __future__ import annotations

from shoal.core import events as ev
from shoal.core.models import ModelState
from shoal.errors import DeadLettered, ErrorInfo
from shoal.telemetry import log
from shoal.telemetry.metrics import WorkerMetrics
from shoal.values import BYTES_PER_TOKEN
from shoal.wire.socket import Done, Generated, Loaded
from shoal.worker.spans import Spans
from shoal.worker.stash import Stash

_log = log.get(__name__)

#: Share of the newest unit in the running mean of bytes a token.
_SHARE = 0.05
#: English has 4 to 5 bytes a token, German 5, Chinese 2 to 3, emoji in JSON escapes about 12.
MOST_BYTES_PER_TOKEN = 12.0


class Watch:
    """Metrics and log events of one worker, and the text statistics that pulses carry."""

    def __init__(
        self, metrics: WorkerMetrics, models: dict[str, ModelState], spans: Spans | None
    ) -> None:
        self.metrics = metrics
        self._spans = spans
        self._models = models
        self._bytes_per_token: dict[str, float] = {}
        self._failures: dict[str, str | None] = {}

    def arrived(self, stash: Stash) -> None:
        """A unit was delivered."""
        self.metrics.delivered(stash.delivered)
        if stash.delivered > 1:
            _log.event(
                "redelivered", unit=stash.unit.id, model=stash.unit.model, delivery=stash.delivered
            )

    def prepared(self, stash: Stash, lengths: list[int]) -> None:
        """A unit was tokenized: learn how many bytes a token has.

        Nothing from items that failed or were cut, of which not all was read, nor from decoded
        files, which count as the longest text does however many bytes they have.
        """
        tokens = sum(lengths)
        items = [item for item in stash.items if item is not None]
        if not tokens or len(items) < len(stash.items):
            return
        if any(item.truncated or item.decoded for item in items):
            return
        ratio = stash.size.bytes / tokens
        if not any(item.media for item in items):
            # Bounded: one text of a single unknown "word" would move the mean by thousands.
            ratio = min(MOST_BYTES_PER_TOKEN, ratio)
        mean = self.bytes_per_token(stash.unit.model)
        self._bytes_per_token[stash.unit.model] = mean + _SHARE * (ratio - mean)

    def bytes_per_token(self, model: str) -> float:
        return self._bytes_per_token.get(model, BYTES_PER_TOKEN)

    def loaded(self, lane: str, loaded: Loaded) -> None:
        """A model became resident."""
        self.metrics.loaded(lane, loaded.model, loaded.bytes, loaded.seconds)
        _log.event(
            "loaded",
            lane=lane,
            model=loaded.model,
            mb=round(loaded.bytes / 1e6),
            s=round(loaded.seconds, 3),
        )

    def failures(self) -> None:
        """Log what the core gave up by itself, once: too large for any lane, say."""
        for name, model in self._models.items():
            reason = model.reason if model.state == "failed" else None
            if reason is not None and reason != self._failures.get(name):
                _log.event("model_given_up", level="error", model=name, error=reason)
            self._failures[name] = reason

    def evicting(self, evict: ev.Evict) -> None:
        """A runtime is told to let go of a model."""
        self.metrics.evicted(evict.lane, evict.model)
        _log.event("evicting", lane=evict.lane, model=evict.model, why=evict.reason)

    def recycling(self, stop: ev.StopRuntime) -> None:
        """A runtime is stopped, to be started anew."""
        self.metrics.recycled(stop.lane, stop.kind)
        _log.event("runtime_recycled", level="warning", lane=stop.lane, kind=stop.kind)

    def load_failed(self, lane: str | None, model: str, reason: str) -> None:
        """A model could not be loaded there, or its files not be had (no lane)."""
        self.metrics.load_failed(model)
        self._failures[model] = reason
        _log.event("load_failed", level="error", lane=lane, model=model, error=reason)

    def batch_done(self, lane: str, run: ev.Run, done: Done) -> None:
        """A runtime computed a batch."""
        model = self._models[run.model]
        tokens = sum(item.tokens for item in run.items)
        fill = run.predicted_s / model.spec.budget.seconds
        self.metrics.batch(run.model, len(run.items), tokens, done.computed_tokens, fill)
        self.metrics.predicted(run.model, run.predicted_s, done.seconds)
        self.metrics.prediction_errors(run.model, *model.cost.errors)
        _log.event(
            "batch_done",
            level="debug",
            lane=lane,
            model=run.model,
            items=len(run.items),
            tokens=tokens,
            ms=round(done.seconds * 1e3, 2),
            predicted_ms=round(run.predicted_s * 1e3, 2),
        )

    def generated(self, lane: str, run: ev.Run, over: Generated, first_s: float) -> None:
        """A runtime ended a sequence; `first_s`: from its beginning to its first token."""
        tokens = sum(item.tokens for item in run.items)
        computed = tokens - over.cached_tokens + over.new_tokens
        self.metrics.batch(run.model, 1, tokens + over.new_tokens, computed, 0.0)
        if over.finish != "cancelled":
            self.metrics.predicted(run.model, run.predicted_s, over.seconds)
        self.metrics.prediction_errors(run.model, *self._models[run.model].cost.errors)
        _log.event(
            "generated",
            level="debug",
            lane=lane,
            model=run.model,
            finish=over.finish,
            tokens=tokens,
            cached=over.cached_tokens,
            new=over.new_tokens,
            first_ms=round(first_s * 1e3, 2),
            ms=round(over.seconds * 1e3, 2),
        )

    def answered(self, stash: Stash) -> None:
        """A unit was settled."""
        answer = stash.answered
        if answer is None:
            return
        outcome = "failed" if answer.error is not None else "answered"
        self.metrics.unit(stash.unit.model, outcome, answer.timings)
        for error in answer.errors.values():
            self._count(stash.unit.model, error)
        if self._spans is not None:
            self._spans.settled(stash)

    def item_failed(self, stash: Stash, index: int, error: ErrorInfo) -> None:
        """One item is given up; it is counted when its unit is answered."""
        _log.event(
            "item_failed",
            level="error",
            unit=stash.unit.id,
            item=index,
            model=stash.unit.model,
            code=error.code,
            error=error.message,
        )

    def unit_failed(self, stash: Stash, error: ErrorInfo) -> None:
        """A unit is answered with an error as a whole."""
        self._count(stash.unit.model, error)
        _log.event(
            "unit_failed",
            level="error",
            unit=stash.unit.id,
            model=stash.unit.model,
            code=error.code,
            error=error.message,
        )

    def _count(self, model: str, error: ErrorInfo) -> None:
        self.metrics.error(error.code)
        if error.code == DeadLettered.code:
            self.metrics.dead_letter(model)

    def dropped(self, stash: Stash, outcome: str) -> None:
        """A unit was given back, or nobody wants it any more."""
        self.metrics.unit(stash.unit.model, outcome)
        _log.event(
            "unit_dropped", level="debug", unit=stash.unit.id, model=stash.unit.model, why=outcome
        )

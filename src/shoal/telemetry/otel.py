"""Sends spans to an OpenTelemetry collector; the only file that imports OpenTelemetry.

Spans are built whole, with the ids that already travelled over the queue, and handed to the SDK's
batch processor, which sends them from a thread of its own.
"""

from __future__ import annotations

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from shoal.telemetry.trace import Attributes, Trace, new_span_id, parse

_PATH = "/v1/traces"


class _Times(msgspec.Struct, frozen=True):
    """What a span says of itself."""

    name: str
    start_s: float
    end_s: float
    attributes: Attributes


class Tracer:
    """Records spans; times are Unix seconds. `tracer` makes it where a collector is configured."""

    def __init__(self, endpoint: str, service: str) -> None:
        base = endpoint.rstrip("/")
        url = base if base.endswith(_PATH) else base + _PATH
        self._processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=url))
        self._resource = Resource.create({"service.name": service})

    def request(
        self,
        name: str,
        trace: Trace,
        caller: Trace | None,
        start_s: float,
        end_s: float,
        attributes: Attributes,
    ) -> None:
        """The span that `trace` itself names, made by `begin(caller)`."""
        if trace.sampled:
            said = _Times(name, start_s, end_s, attributes)
            self._record(trace, caller, SpanKind.SERVER, said)

    def span(
        self,
        name: str,
        traceparent: str | None,
        start_s: float,
        end_s: float,
        attributes: Attributes,
    ) -> None:
        """A child of the span that `traceparent` names; nothing if it names none."""
        parent = parse(traceparent)
        if parent is not None and parent.sampled:
            said = _Times(name, start_s, end_s, attributes)
            own = Trace(parent.trace_id, new_span_id())
            self._record(own, parent, SpanKind.INTERNAL, said)

    def close(self) -> None:
        """Send what was recorded; blocks for seconds if the collector is away."""
        self._processor.shutdown()  # type: ignore[no-untyped-call]

    def _record(self, own: Trace, parent: Trace | None, kind: SpanKind, said: _Times) -> None:
        self._processor.on_end(
            ReadableSpan(
                said.name,
                context=_context(own),
                parent=None if parent is None else _context(parent),
                resource=self._resource,
                attributes=said.attributes,
                kind=kind,
                start_time=int(said.start_s * 1e9),
                end_time=int(said.end_s * 1e9),
            )
        )


def _context(trace: Trace) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if trace.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), True, flags)

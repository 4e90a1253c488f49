"""Trace ids for every request, and OpenTelemetry spans where a collector is configured.

Ids follow W3C Trace Context (https://www.w3.org/TR/trace-context/) and always travel with the unit:
making one costs a microsecond. Spans are recorded after the fact, from the times that processes
measure anyway; without `otlp_endpoint` recording does nothing and OpenTelemetry is never imported.
"""

from __future__ import annotations

import importlib.util
import random
import re
from collections.abc import Mapping
from typing import Protocol

import msgspec

from shoal.errors import ConfigError

Attributes = Mapping[str, str | int | float | bool]

# Later versions may append fields after another '-'; version ff is forbidden.
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 0x01
# Identifiers, no secrets; seeded from the system's entropy, once per process.
_random = random.Random()  # noqa: S311


class Trace(msgspec.Struct, frozen=True):
    """A position in a trace: `span_id` is the span that whatever follows is a child of."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def parse(traceparent: str | None) -> Trace | None:
    """The trace that a header names; None if there is none or it is malformed, as W3C asks."""
    match = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent else None
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Trace(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def begin(caller: Trace | None) -> Trace:
    """The trace of a new request: a new span of its caller's trace, or of a trace of its own."""
    if caller is not None:
        return Trace(caller.trace_id, new_span_id(), caller.sampled)
    return Trace(f"{_random.getrandbits(128) or 1:032x}", new_span_id())


def new_span_id() -> str:
    """16 hex digits."""
    return f"{_random.getrandbits(64) or 1:016x}"


class Tracer(Protocol):
    """Records spans; times are Unix seconds."""

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
        ...

    def span(
        self,
        name: str,
        traceparent: str | None,
        start_s: float,
        end_s: float,
        attributes: Attributes,
    ) -> None:
        """A child of the span that `traceparent` names; nothing if it names none."""
        ...

    def close(self) -> None:
        """Send what was recorded; blocks for seconds if the collector is away."""
        ...


class NoTracer:
    """Records nothing."""

    def request(
        self,
        name: str,
        trace: Trace,
        caller: Trace | None,
        start_s: float,
        end_s: float,
        attributes: Attributes,
    ) -> None:
        pass

    def span(
        self,
        name: str,
        traceparent: str | None,
        start_s: float,
        end_s: float,
        attributes: Attributes,
    ) -> None:
        pass

    def close(self) -> None:
        pass


def tracer(otlp_endpoint: str | None, service: str) -> Tracer:
    """The tracer of a process. Raises `ConfigError` if it needs the `otel` extra and it is not there.

    `otlp_endpoint` is the collector's OTLP/HTTP address (``http://host:4318``).
    """
    if not otlp_endpoint:
        return NoTracer()
    if importlib.util.find_spec("opentelemetry") is None:
        raise ConfigError("otlp_endpoint needs the 'otel' extra: pip install 'shoal[otel]'")
    from shoal.telemetry.otel import OtelTracer

    return OtelTracer(otlp_endpoint, service)

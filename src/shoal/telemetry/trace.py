"""Trace ids for every request, and OpenTelemetry spans where a collector is configured.

Ids follow W3C Trace Context (https://www.w3.org/TR/trace-context/) and always travel with the unit:
making one costs a microsecond. Spans are recorded after the fact, from the times that processes
measure anyway; without `otlp_endpoint` nothing is, and OpenTelemetry is never imported.
"""

from __future__ import annotations

import importlib.util
import random
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from shoal.errors import ConfigError
from shoal.installing import install

if TYPE_CHECKING:
    from shoal.telemetry.otel import Tracer

Attributes = Mapping[str, str | int | float | bool]

# Later versions may append fields after another '-'; version ff is forbidden.
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_HTTP = re.compile(r"https?://[^\s/?#]")
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


def tracer(otlp_endpoint: str | None, service: str) -> Tracer | None:
    """The tracer of a process, None where nothing is to be recorded.

    `otlp_endpoint` is the collector's OTLP/HTTP address (``http://host:4318``). Raises
    `ConfigError` if it is no such address, or the `otel` extra is not there.
    """
    if not otlp_endpoint:
        return None
    if _HTTP.match(otlp_endpoint) is None:
        raise ConfigError(
            f"otlp_endpoint: '{otlp_endpoint}' is no HTTP address, such as http://collector:4318"
        )
    if importlib.util.find_spec("opentelemetry") is None:
        raise ConfigError(f"otlp_endpoint needs the 'otel' extra: {install('otel')}")
    from shoal.telemetry.otel import Tracer

    return Tracer(otlp_endpoint, service)

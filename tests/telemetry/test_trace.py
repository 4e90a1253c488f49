"""Trace ids as W3C has them, and spans as a real collector receives them."""

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from shoal.errors import ConfigError
from shoal.telemetry import trace

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_header_survives_parsing() -> None:
    parsed = trace.parse(HEADER)
    assert parsed is not None and parsed.sampled
    assert parsed.traceparent == HEADER


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "garbage",
        HEADER.upper(),
        HEADER + "-more",  # version 00 has four fields
        HEADER[:-1],
        "ff" + HEADER[2:],
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        HEADER + "\n" + HEADER,
    ],
)
def test_a_malformed_header_is_ignored(header: str | None) -> None:
    assert trace.parse(header) is None


def test_a_later_version_may_say_more() -> None:
    assert trace.parse("01" + HEADER[2:] + "-more") == trace.parse(HEADER)


def test_a_request_continues_its_callers_trace_with_a_span_of_its_own() -> None:
    caller = trace.Trace("a" * 32, "b" * 16, sampled=False)
    begun = trace.begin(caller)
    assert begun.trace_id == caller.trace_id and begun.span_id != caller.span_id
    assert begun.traceparent.endswith("-00")


def test_a_request_without_caller_starts_a_trace() -> None:
    first, second = trace.begin(None), trace.begin(None)
    assert first.trace_id != second.trace_id
    assert trace.parse(first.traceparent) == first


def test_nothing_is_recorded_and_nothing_imported_without_an_endpoint() -> None:
    code = (
        "import sys; from shoal.telemetry import trace; assert trace.tracer(None, 'x') is None; "
        "sys.exit(any(m.startswith('opentelemetry') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install .*'shoal\[otel\]'"):
        trace.tracer("http://127.0.0.1:4318", "x")


@pytest.mark.parametrize("endpoint", ["x", "collector:4318", "grpc://collector:4317", "http://"])
def test_an_endpoint_that_is_no_address_is_told(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="is no HTTP address"):
        trace.tracer(endpoint, "x")


class Collector(http.server.BaseHTTPRequestHandler):
    bodies: list[bytes] = []

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Collector.bodies.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_spans_reach_the_collector_with_the_ids_of_the_queue(collector: str) -> None:
    tracer = trace.tracer(collector, "shoal-gateway")
    assert tracer is not None
    caller = trace.parse(HEADER)
    request = trace.begin(caller)
    tracer.span("compute", request.traceparent, 10.0, 11.0, {"model": "bge", "items": 2})
    tracer.request("encode", request, caller, 9.0, 12.0, {"status": 200})
    tracer.span("unsampled", HEADER[:-2] + "00", 0.0, 1.0, {})
    tracer.close()

    message = ExportTraceServiceRequest()
    for body in Collector.bodies:
        message.MergeFromString(body)
    spans = {
        span.name: span
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert set(spans) == {"compute", "encode"}
    assert caller is not None
    assert spans["encode"].span_id.hex() == request.span_id
    assert spans["encode"].parent_span_id.hex() == caller.span_id
    assert spans["compute"].parent_span_id.hex() == request.span_id
    assert spans["compute"].trace_id.hex() == caller.trace_id
    assert spans["compute"].end_time_unix_nano - spans["compute"].start_time_unix_nano == 10**9

"""What a benchmark says when it could not measure."""

from __future__ import annotations

from shoal.errors import ShoalError


class BenchFailed(ShoalError):
    """What was to be measured did not work; the message says what did not."""

    code = "bench_failed"

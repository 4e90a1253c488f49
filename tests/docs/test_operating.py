"""Every metric that a process tells is explained, and none that is not there."""

import re
from pathlib import Path

from shoal.telemetry.metrics import GatewayMetrics, WorkerMetrics

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
TYPES = re.compile(rb"^# TYPE (shoal_\w+?)(?:_created)? (?!untyped)(\w+)$", re.MULTILINE)


def test_the_page_has_the_metrics_that_there_are() -> None:
    told = b"".join(kind().render()[0] for kind in (GatewayMetrics, WorkerMetrics))
    there = {name.decode() for name, _ in TYPES.findall(told)}
    counters = {name for name in there if name.endswith("_total")}
    there -= {name.removesuffix("_total") for name in counters}  # of `_created`
    assert set(re.findall(r"shoal_(?:gateway|worker)_\w+", PAGE.read_text())) == there

"""Log lines as people and machines read them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from shoal.errors import ConfigError
from shoal.telemetry import log


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(False)


def test_json_has_one_object_per_event() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)
    log.get("shoal.worker.loop").event("loaded", model="bge", ms=12.5)
    line = json.loads(out.getvalue())
    assert line.pop("time") > 1e9
    assert line == {
        "level": "info",
        "logger": "shoal.worker.loop",
        "event": "loaded",
        "model": "bge",
        "ms": 12.5,
    }


def test_text_is_short_and_quotes_what_could_forge_a_line() -> None:
    out = io.StringIO()
    log.configure("info", "text", out)
    log.get("shoal.gateway.app").event(
        "refused", lane=None, model="a\nb", reason="too much", code="x", ms=1.23456
    )
    (line,) = out.getvalue().splitlines()
    assert line.endswith("refused model='a\\nb' reason='too much' code=x ms=1.235")
    assert "gateway.app" in line and "shoal." not in line


def test_events_below_the_level_are_dropped() -> None:
    out = io.StringIO()
    log.configure("warning", "json", out)
    log.get("x").event("quiet")
    log.get("x").event("loud", level="warning")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["loud"]


def test_an_exception_brings_its_traceback_only_as_an_error() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)
    try:
        raise ValueError("broken")
    except ValueError as error:
        log.get("x").event("retried", level="warning", error=error)
        log.get("x").event("failed", level="error", error=error)
    retried, failed = map(json.loads, out.getvalue().splitlines())
    assert retried["error"] == failed["error"] == "broken"
    assert "traceback" not in retried
    assert "ValueError: broken" in failed["traceback"]


def test_library_lines_come_out_in_the_same_form() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)
    logging.getLogger("uvicorn.error").info("started %s", "server")
    assert json.loads(out.getvalue())["event"] == "started server"


def test_plain_logging_with_fields_is_the_same_event() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)
    logging.getLogger("shoal.broker").info("started", extra={"fields": {"pid": 7}})
    assert json.loads(out.getvalue())["pid"] == 7


def test_values_that_json_cannot_hold_become_text() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)
    log.get("x").event("odd", value=object, number=float("nan"))
    assert json.loads(out.getvalue())["value"] == "<class 'object'>"


def test_auto_is_json_where_nobody_watches() -> None:
    out = io.StringIO()
    log.configure("info", "auto", out)
    log.get("x").event("seen")
    assert json.loads(out.getvalue())["event"] == "seen"


@pytest.mark.parametrize(
    ("level", "format", "message"),
    [
        ("warn", "json", r"log_level is 'warn'.*did you mean 'warning'"),
        ("info", "jsn", r"log_format is 'jsn'.*did you mean 'json'"),
    ],
)
def test_wrong_settings_name_the_nearest(level: str, format: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        log.configure(level, format, io.StringIO())

"""Structured logs: one event per state change, as a line for people or a JSON object for machines.

It decides how a line looks and where it goes (standard error). It must never see the content of a
request: events carry names, ids, counts and milliseconds. Standard `logging` is underneath, so that
libraries' lines (uvicorn's, say) come out in the same form.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, TextIO

import msgspec

from shoal.errors import ConfigError
from shoal.spelling import nearest

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "text", "json")
_NUMBERS = {level: logging.getLevelNamesMapping()[level.upper()] for level in LEVELS}

_COLOURS = {"DEBUG": "\x1b[2m", "INFO": "", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m"}
_RESET = "\x1b[0m"
# Libraries that install handlers and levels of their own, or whose `info` is noise to an operator.
_ADOPTED = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")
_QUIET = ("uvicorn.access", "httpx", "httpcore", "nats")


class Logger:
    """A named logger whose one method says what happened."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def event(
        self,
        name: str,
        /,
        *,
        level: str = "info",
        error: BaseException | str | None = None,
        **fields: object,
    ) -> None:
        """Log that `name` (past tense, ``snake_case``) happened, with `fields`.

        An exception given as `error` is logged with its traceback at level ``error`` only.
        """
        number = _NUMBERS[level]
        if not self._logger.isEnabledFor(number):
            return
        if error is not None:
            fields["error"] = str(error) or type(error).__name__
        trace = error if isinstance(error, BaseException) and number >= logging.ERROR else None
        self._logger.log(number, name, extra={"fields": fields}, exc_info=trace)


def get(name: str) -> Logger:
    """The logger of a module; `name` is its ``__name__``."""
    return Logger(logging.getLogger(name))


def configure(level: str = "info", format: str = "auto", stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (standard error).

    `format`: ``text``, ``json``, or ``auto``: text on a terminal, else JSON.
    Raises `ConfigError` for a level or a format that does not exist.
    """
    _check("log_level", level, LEVELS)
    _check("log_format", format, FORMATS)
    stream = stream or sys.stderr
    if format == "auto":
        format = "text" if stream.isatty() else "json"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Json() if format == "json" else _Text(colour=stream.isatty()))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _ADOPTED:
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name in _QUIET:
        logging.getLogger(name).setLevel("DEBUG" if level == "debug" else "WARNING")
    logging.captureWarnings(True)


def _check(setting: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(
            f"{setting} is '{value}'; it can be {', '.join(known)}{nearest(value, known)}"
        )


def _event(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return record.getMessage(), fields


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event, fields = _event(record)
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": event,
            **fields,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class _Text(logging.Formatter):
    def __init__(self, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _event(record)
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        where = record.name.removeprefix("shoal.")
        said = {key: value for key, value in fields.items() if value is not None}
        pairs = "".join(f" {key}={_plain(value)}" for key, value in said.items())
        line = f"{clock} {record.levelname.lower():<7} {where:<20} {event}{pairs}"
        if self._colour and _COLOURS.get(record.levelname):
            line = f"{_COLOURS[record.levelname]}{line}{_RESET}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    # Quoted when it has spaces, or control characters that could forge a line of their own.
    return text if text.isprintable() and " " not in text and text else repr(text)

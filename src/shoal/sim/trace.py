"""Traces: when which model was asked for how much, read from a file.

Three kinds of files, told apart by their lines: CSV with a head (``time,model,items,tokens``), JSON
lines with these keys, and a gateway's own JSON log at level ``debug``, whose ``request`` lines say
all but the tokens. ``tokens`` are of the whole request; without them, items are taken for
`tokens_per_item` long.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from shoal.errors import ConfigError, reason
from shoal.sim.workload import Request

#: Tokens of an item of which a trace tells nothing: a short paragraph.
TOKENS_PER_ITEM = 128
#: Longest trace: an hour takes about two seconds of virtual pulses, however little comes in it.
MOST_SECONDS = 7 * 86_400
#: Most items of a request, and tokens of one item: many times what any gateway takes.
MOST_ITEMS, MOST_TOKENS = 1_000_000, 100_000_000


class Call(msgspec.Struct, frozen=True):
    """One request of a trace; `time` in seconds, from any zero."""

    time: float
    model: str
    items: int = 1
    tokens: int = 0


class _Logged(msgspec.Struct, frozen=True):
    """An answered request in a gateway's log: written when it was answered, `ms` after it came."""

    time: float
    model: str
    items: int
    ms: float = 0.0


class Trace(msgspec.Struct, frozen=True):
    """Requests in order of time, from 0; `models` by how often they are asked for."""

    models: list[str]
    requests: list[Request]

    @property
    def seconds(self) -> float:
        """From the first request to the last."""
        return self.requests[-1].at

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.requests) / self.seconds

    def faster(self, factor: float) -> list[Request]:
        """The same requests in a `factor`-th of the time."""
        return [Request(r.at / factor, r.model, r.lengths) for r in self.requests]

    def share(self, model: str) -> float:
        """Share of the requests that are for this model."""
        number = self.models.index(model)
        return sum(r.model == number for r in self.requests) / len(self.requests)


def read_trace(path: Path, tokens_per_item: int = TOKENS_PER_ITEM) -> Trace:
    """The requests of a file.

    Raises:
        ConfigError: it cannot be read, a line is wrong (which one), or it holds too little.
    """
    calls = sorted(_calls(path), key=lambda call: call.time)
    if len(calls) < 2 or calls[0].time == calls[-1].time:
        raise ConfigError(f"{path}: a trace needs at least two requests at different times")
    if (seconds := calls[-1].time - calls[0].time) > MOST_SECONDS:
        raise ConfigError(
            f"{path}: this trace takes {seconds:g} seconds and may take "
            f"{MOST_SECONDS}: give times in seconds, or its busiest hours alone"
        )
    counts: dict[str, int] = {}
    for call in calls:
        counts[call.model] = counts.get(call.model, 0) + 1
    models = sorted(counts, key=lambda name: (-counts[name], name))
    number = {name: position for position, name in enumerate(models)}
    began = calls[0].time
    return Trace(
        models,
        [Request(c.time - began, number[c.model], _lengths(c, tokens_per_item)) for c in calls],
    )


def _lengths(call: Call, tokens_per_item: int) -> list[int]:
    """Items as equal as whole tokens can be; only their sum is known."""
    tokens = call.tokens or call.items * tokens_per_item
    least, longer = divmod(max(tokens, call.items), call.items)
    return [least + (position < longer) for position in range(call.items)]


def _calls(path: Path) -> Iterator[Call]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {reason(error)}") from None
    lines = text.splitlines()
    read = _json_call if text.lstrip().startswith("{") else None
    rows: Iterator[tuple[int, Any]]
    if read is None:
        table = csv.DictReader(lines)
        rows = ((table.line_num, row) for row in table)
    else:
        rows = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    for number, row in rows:
        try:
            call = _json_call(row) if read is not None else msgspec.convert(row, Call, strict=False)
        except msgspec.MsgspecError as error:
            raise ConfigError(
                f"{path}, line {number}: {error}; a request has time, model, items and tokens"
            ) from None
        if call is not None:
            if (fault := _fault(call)) is not None:
                raise ConfigError(f"{path}, line {number}: {fault}")
            yield call


def _fault(call: Call) -> str | None:
    """What is wrong with the numbers of a request."""
    if not math.isfinite(call.time):
        return f"time is {call.time}; it must be a number of seconds"
    if call.items < 1 or call.tokens < 0:
        return "items and tokens count from 1"
    if call.items > MOST_ITEMS:
        return f"a request has {call.items} items and may have {MOST_ITEMS}"
    if call.tokens > call.items * MOST_TOKENS:
        return f"an item has {call.tokens // call.items} tokens and may have {MOST_TOKENS}"
    return None


def _json_call(line: str) -> Call | None:
    """One line; None for those of a gateway's log that are no answered requests."""
    fields = msgspec.json.decode(line)
    if not isinstance(fields, dict) or "event" not in fields:
        return msgspec.convert(fields, Call)
    if fields["event"] != "request" or fields.get("status") != 200 or not fields.get("items"):
        return None
    logged = msgspec.convert(fields, _Logged)
    return Call(logged.time - logged.ms / 1000, logged.model, logged.items)

"""How a dead letter is shown: as a line, as fields, its content only when that is asked for.

Decides nothing else. What cannot be read is shown in hexadecimal.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
import typer

from shoal.errors import InvalidRequest

if TYPE_CHECKING:
    from shoal.broker.letters import Kept
    from shoal.wire.queue import Unit


class Entry(msgspec.Struct, frozen=True):
    """One letter without its content. `items`: positions at fault, empty for all."""

    id: int
    age_s: float
    pool: str
    model: str
    tenant: str
    request: str
    code: str
    reason: str
    strikes: int
    worker: str
    items: list[int]
    bytes: int


def entry(kept: Kept) -> Entry:
    """All of a letter but its content."""
    letter = kept.letter
    return Entry(
        id=kept.id,
        age_s=round(max(0.0, time.time() - kept.stored_s), 1),
        pool=kept.pool,
        model=letter.model,
        tenant=letter.tenant,
        request=letter.request,
        code=letter.code,
        reason=letter.reason,
        strikes=letter.strikes,
        worker=letter.worker,
        items=letter.items,
        bytes=len(letter.data),
    )


def content(kept: Kept) -> list[str]:
    """The items at fault as text; what cannot be read in hexadecimal."""
    from shoal.cli.replay import renewed

    try:
        unit = renewed(kept.letter, "shown", 0.0)
    except InvalidRequest:
        return [kept.letter.data.hex()]
    return [_shown(unit, position) for position in range(len(unit.items))]


def _shown(unit: Unit, position: int) -> str:
    if position in unit.payloads:
        return f"{unit.payloads[position].bytes} bytes, not kept"
    raw = unit.items[position]
    try:
        return (raw if unit.encoding == "json" else _as_json(raw)).decode()
    except ValueError:
        return raw.hex()


def _as_json(raw: bytes) -> bytes:
    return msgspec.json.encode(msgspec.msgpack.decode(raw))


def show_table(entries: list[Entry]) -> None:
    """A line for each."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if not entries:
        typer.echo("no dead letters")
        return
    table = Table("id", "age", "model", "tenant", "items", "bytes", "strikes", "reason")
    table.title = f"Dead letters: {len(entries)}"
    for one in entries:
        table.add_row(
            str(one.id),
            _age(one.age_s),
            one.model or "–",
            one.tenant or "–",
            ", ".join(map(str, one.items)) or "all",
            str(one.bytes),
            str(one.strikes),
            escape(f"{one.code}: {one.reason}"),
        )
    Console().print(table)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"

"""`shoal dead`: units that were given up: list them, look at one, send them again, drop them.

Decides only how these are shown, and that a letter goes when its replay was answered well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from shoal.cli.context import Given, with_broker
from shoal.cli.flags import takes
from shoal.errors import ConfigError, DeadLettered, InvalidRequest
from shoal.settings import CommonSettings

if TYPE_CHECKING:
    from shoal.broker.connection import Connection
    from shoal.broker.letters import Kept
    from shoal.cli.replay import Outcome
    from shoal.wire.queue import Unit

#: A broker in reach answers in milliseconds.
CONNECT_S = 2.0

app = typer.Typer(no_args_is_help=True, help="Dead letters: units that were given up.")

AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
#: JetStream counts letters from 1.
LEAST_ID, MOST_ID = 1, 2**63 - 1
#: Up to the longest deadline that a gateway grants by default.
LEAST_TIMEOUT_S, MOST_TIMEOUT_S = 0.1, 600.0

Id = Annotated[
    int,
    typer.Argument(metavar="ID", min=LEAST_ID, max=MOST_ID, help="As `shoal dead list` shows it."),
]
T = TypeVar("T")


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


@app.command("list")
@takes(CommonSettings)
def list_letters(given: Given, as_json: AsJson = False) -> None:
    """Show every dead letter: why, since when, whose; never its content."""
    entries = [_entry(kept) for kept in _with_connection(given, _all)]
    if as_json:
        _print_json(entries)
    else:
        _show_table(entries)


@app.command()
@takes(CommonSettings)
def show(
    given: Given,
    id_: Id,
    content: Annotated[bool, typer.Option("--content", help="Its items too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter; its items only with --content, as they may be anybody's text."""
    from shoal.broker import letters

    kept = _with_connection(given, lambda connection: letters.get(connection, id_))
    about: dict[str, Any] = msgspec.to_builtins(_entry(kept))
    if content:
        about["content"] = _content(kept)
    if as_json:
        _print_json(about)
    else:
        for name, value in about.items():
            typer.echo(f"{name:<8} {value}")


@app.command()
@takes(CommonSettings)
def replay(
    given: Given,
    id_: Annotated[
        int | None,
        typer.Argument(metavar="ID", min=LEAST_ID, max=MOST_ID, help="One letter."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every letter, oldest first.")] = False,
    timeout: Annotated[
        float,
        typer.Option(
            min=LEAST_TIMEOUT_S, max=MOST_TIMEOUT_S, help="Seconds to wait for each answer."
        ),
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Send the items at fault again; a letter goes only when its replay was answered well.

    shoal dead replay 17
    shoal dead replay --all
    """
    if (id_ is None) == (not every):
        raise ConfigError("say which letter to replay, or --all")
    outcomes = _with_connection(given, lambda connection: _replay(connection, id_, timeout))
    if as_json:
        _print_json(outcomes)
    else:
        for outcome in outcomes:
            ended = "answered" if outcome.answered else f"{outcome.code}: {outcome.message}"
            typer.echo(f"{outcome.id}: {ended}")
    if not all(outcome.answered for outcome in outcomes):
        raise typer.Exit(1)


@app.command()
@takes(CommonSettings)
def drop(
    given: Given,
    ids: Annotated[list[int], typer.Argument(metavar="ID…", min=LEAST_ID, max=MOST_ID)],
) -> None:
    """Remove letters for good."""
    from shoal.broker import letters

    async def drop_all(connection: Connection) -> None:
        for id_ in ids:
            await letters.drop(connection, id_)

    _with_connection(given, drop_all)


def _with_connection(given: Given, work: Callable[[Connection], Awaitable[T]]) -> T:
    async def run() -> T:
        from shoal.broker.connection import Connection

        settings = with_broker(given.load(CommonSettings))
        connection = await Connection.open(settings, "shoal-dead", wait_s=CONNECT_S)
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(run())


async def _all(connection: Connection) -> list[Kept]:
    from shoal.broker import letters

    return [kept async for kept in letters.letters(connection)]


async def _replay(connection: Connection, id_: int | None, timeout_s: float) -> list[Outcome]:
    from shoal.broker import letters

    wanted = await _all(connection) if id_ is None else [await letters.get(connection, id_)]
    return [await _replay_one(connection, kept, timeout_s) for kept in wanted]


async def _replay_one(connection: Connection, kept: Kept, timeout_s: float) -> Outcome:
    from shoal.broker import letters
    from shoal.cli.replay import Outcome, replay

    try:
        outcome = await replay(connection, kept, timeout_s)
    except InvalidRequest as error:
        return Outcome(kept.id, False, "", error.code, error.message)
    if outcome.answered:
        await letters.drop(connection, kept.id)
    elif outcome.code == DeadLettered.code:
        # The same again, under a name nobody asked for: the first letter says it better.
        async for again in letters.letters(connection, kept.id):
            if again.letter.request == outcome.request:
                await letters.drop(connection, again.id)
    return outcome


def _entry(kept: Kept) -> Entry:
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


def _content(kept: Kept) -> list[str]:
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


def _print_json(value: object) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def _show_table(entries: list[Entry]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if not entries:
        typer.echo("no dead letters")
        return
    table = Table("id", "age", "model", "tenant", "items", "bytes", "strikes", "reason")
    table.title = f"Dead letters: {len(entries)}"
    for entry in entries:
        table.add_row(
            str(entry.id),
            _age(entry.age_s),
            entry.model or "–",
            entry.tenant or "–",
            ", ".join(map(str, entry.items)) or "all",
            str(entry.bytes),
            str(entry.strikes),
            escape(f"{entry.code}: {entry.reason}"),
        )
    Console().print(table)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"

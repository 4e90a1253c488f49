"""`shoal dead`: units that were given up: list them, look at one, send them again, drop them.

Decides when a letter goes: once its replay was answered well. How one is shown is `letter`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from shoal.cli.asking import BROKER, ask
from shoal.cli.context import Given
from shoal.cli.flags import takes
from shoal.cli.numbers import decimal, whole
from shoal.cli.output import AsJson, print_json
from shoal.errors import ConfigError, DeadLettered, InvalidRequest
from shoal.settings import CommonSettings

if TYPE_CHECKING:
    from shoal.broker.connection import Connection
    from shoal.broker.letters import Kept, Unreadable
    from shoal.cli.replay import Outcome

NAME = "shoal-dead"

app = typer.Typer(no_args_is_help=True, help="Dead letters: units that were given up.")

#: JetStream counts letters from 1.
LETTER = whole(1)
#: Up to the longest deadline that a gateway grants by default.
LEAST_TIMEOUT_S, MOST_TIMEOUT_S = 0.1, 600.0

Id = Annotated[
    int,
    typer.Argument(metavar="ID", parser=LETTER, help="As `shoal dead list` shows it."),
]


@app.command("list")
@takes(CommonSettings, only=BROKER)
def list_letters(given: Given, as_json: AsJson = False) -> None:
    """Show every dead letter: why, since when, whose; never its content.

    Exit code 1 if one cannot be read.
    """
    from shoal.broker.letters import Unreadable
    from shoal.cli import letter

    found = ask(given, NAME, _all)
    entries = [letter.entry(one) for one in found if not isinstance(one, Unreadable)]
    if as_json:
        print_json(entries)
    else:
        letter.show_table(entries)
    unreadable = [one for one in found if isinstance(one, Unreadable)]
    for one in unreadable:
        print(f"error: {one.error.message}", file=sys.stderr)
    if unreadable:
        raise typer.Exit(1)


@app.command()
@takes(CommonSettings, only=BROKER)
def show(
    given: Given,
    id_: Id,
    content: Annotated[bool, typer.Option("--content", help="Its items too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter; its items only with --content, as they may be anybody's text."""
    from shoal.broker import letters
    from shoal.cli import letter

    kept = ask(given, NAME, lambda connection: letters.get(connection, id_))
    about = msgspec.to_builtins(letter.entry(kept))
    if content:
        about["content"] = letter.content(kept)
    if as_json:
        print_json(about)
    else:
        for name, value in about.items():
            typer.echo(f"{name:<8} {value}")


@app.command()
@takes(CommonSettings, only=BROKER)
def replay(
    given: Given,
    id_: Annotated[
        int | None,
        typer.Argument(metavar="ID", parser=LETTER, help="One letter."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every letter, oldest first.")] = False,
    timeout: Annotated[
        float,
        typer.Option(
            parser=decimal(LEAST_TIMEOUT_S, MOST_TIMEOUT_S),
            help="Seconds to wait for each answer.",
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
    outcomes = ask(given, NAME, lambda connection: _replay(connection, id_, timeout))
    if as_json:
        print_json(outcomes)
    else:
        for outcome in outcomes:
            ended = "answered" if outcome.answered else f"{outcome.code}: {outcome.message}"
            typer.echo(f"{outcome.id}: {ended}")
    if not all(outcome.answered for outcome in outcomes):
        raise typer.Exit(1)


@app.command()
@takes(CommonSettings, only=BROKER)
def drop(
    given: Given,
    ids: Annotated[list[int], typer.Argument(metavar="ID…", parser=LETTER)],
) -> None:
    """Remove letters for good."""
    from shoal.broker import letters

    async def drop_all(connection: Connection) -> None:
        for id_ in ids:
            await letters.drop(connection, id_)

    ask(given, NAME, drop_all)


async def _all(connection: Connection) -> list[Kept | Unreadable]:
    from shoal.broker import letters

    return [one async for one in letters.letters(connection)]


async def _replay(connection: Connection, id_: int | None, timeout_s: float) -> list[Outcome]:
    from shoal.broker import letters

    wanted = await _all(connection) if id_ is None else [await letters.get(connection, id_)]
    return [await _replay_one(connection, one, timeout_s) for one in wanted]


async def _replay_one(connection: Connection, kept: Kept | Unreadable, timeout_s: float) -> Outcome:
    from shoal.broker import letters
    from shoal.cli.replay import Outcome, replay

    if isinstance(kept, letters.Unreadable):
        return Outcome(kept.id, False, "", kept.error.code, kept.error.message)
    try:
        outcome = await replay(connection, kept, timeout_s)
    except InvalidRequest as error:
        return Outcome(kept.id, False, "", error.code, error.message)
    if outcome.answered:
        await letters.drop(connection, kept.id)
    elif outcome.code == DeadLettered.code:
        # The same again, under a name nobody asked for: the first letter says it better.
        async for again in letters.letters(connection, kept.id):
            if isinstance(again, letters.Kept) and again.letter.request == outcome.request:
                await letters.drop(connection, again.id)
    return outcome

"""The `shoal` command: which commands there are, and how a failure is told.

Exit codes: 0 done, 1 it failed, 2 the command line or a setting is wrong, 75 who is needed for it
is away, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from typing import Annotated, NoReturn

import typer

from shoal import __version__
from shoal.cli import (
    dead,
    demo,
    doctor,
    encode,
    extract,
    generate,
    models,
    plan,
    roles,
    runtime,
    score,
    serve,
    sim,
    status,
)
from shoal.cli.processes import AWAY_EXIT, CONFIG_EXIT
from shoal.errors import ConfigError, ShoalError, Unavailable

app = typer.Typer(
    name="shoal",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

USE, LOOK, PARTS = "Use it", "Look at it", "Its parts, one process each"
SIZE = "Size it, on a virtual clock"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shoal {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Serve a large fleet of small models through one API.

    Start with:

    shoal serve all-MiniLM-L6-v2             one model, on this machine
    shoal encode all-MiniLM-L6-v2 "a fish"   a vector from it
    shoal doctor                             if something does not work
    """


app.command(rich_help_panel=USE)(serve.serve)
app.command(rich_help_panel=USE)(encode.encode)
app.command(rich_help_panel=USE)(score.score)
app.command(rich_help_panel=USE)(extract.extract)
app.command(rich_help_panel=USE)(generate.generate)
app.command(rich_help_panel=USE)(demo.demo)
app.add_typer(models.app, name="models", rich_help_panel=USE)
app.command(rich_help_panel=LOOK)(status.status)
app.command(rich_help_panel=LOOK)(doctor.doctor)
app.add_typer(dead.app, name="dead", rich_help_panel=LOOK)
app.command(rich_help_panel=SIZE)(sim.sim)
app.command(rich_help_panel=SIZE)(plan.plan)
app.command(rich_help_panel=PARTS)(roles.gateway)
app.command(rich_help_panel=PARTS)(roles.worker)
app.add_typer(runtime.app, name="runtime", rich_help_panel=PARTS)


def run() -> None:
    """Entry point: run a command; tell a failure in one line on stderr."""
    try:
        app()
    except ShoalError as error:
        print(f"error: {error.message}", file=sys.stderr)
        _end(_exit_code(error))
    except KeyboardInterrupt:
        _end(130)
    except SystemExit as end:
        _end(end.code)


def _end(code: str | int | None) -> NoReturn:
    """End now. Python would first wait for all threads, such as one that fetches a model's files."""
    if isinstance(code, int) and any(not thread.daemon for thread in _others()):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # nobody reads it any more
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _others() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread is not threading.main_thread()]


def _exit_code(error: ShoalError) -> int:
    match error:
        case ConfigError():
            return CONFIG_EXIT
        case Unavailable():
            return AWAY_EXIT
        case _:
            return 1

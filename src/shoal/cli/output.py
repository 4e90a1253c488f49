"""What a command prints for programs instead of people."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


def print_json(value: object) -> None:
    """Anything that msgspec can encode, indented, on stdout."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value)).decode())

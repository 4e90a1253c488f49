"""Commands that ask a gateway, run against one on a real socket that answers as a script says."""

from __future__ import annotations

from typing import Any

import typer
from typer.testing import CliRunner

from shoal.errors import ShoalError


def invoke(app: typer.Typer, *arguments: str, stdin: bytes | None = None) -> Any:
    """The command's result; an error of ours is raised."""
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    if isinstance(result.exception, ShoalError):
        raise result.exception
    return result

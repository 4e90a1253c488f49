"""The one argument of the modules that write a page: where it lies."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def path_of_page(about: str | None, arguments: list[str] | None = None) -> Path:
    """The page that is to be written, by the arguments of the process.

    Exits with a usage where there is none, and where ``--help`` asks for it. `about`: the docstring of
    the module that is run.
    """
    module = sys.modules["__main__"].__spec__
    name = "docs" if module is None else module.name
    first, _, _ = (about or "").partition(":")
    parser = argparse.ArgumentParser(f"python -m {name}", description=f"{first}.")
    parser.add_argument("path", type=Path, help="The page's file, which is written anew.")
    path: Path = parser.parse_args(arguments).path
    return path

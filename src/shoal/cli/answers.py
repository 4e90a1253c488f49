"""How commands that ask a model write what it answered: a table, JSON Lines, errors on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from shoal.cli.texts import STDIN
from shoal.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Column

    from shoal.client.result import Told

SHOWN_ITEMS, SHOWN_CHARACTERS = 10, 36


def tell_errors(told: Told, paths: Sequence[str] = ()) -> None:
    """What failed, a line each, on stderr; of items that are files with its path."""
    for position, error in told.errors.items():
        what = f"{paths[position]}: " if paths else ""
        print(f"error: {what}{error.message}", file=sys.stderr)


def write_lines(
    output: str | None,
    told: Told,
    answer: Callable[[int], dict[str, Any]],
    paths: Sequence[str] = (),
) -> None:
    """A line an item, which failed or not; of items that are files with its path.

    `answer` tells of the item in row so many of those that have an answer.
    """
    with opened(output) as file:
        file.writelines(_lines(told, answer, paths))


def _lines(
    told: Told, answer: Callable[[int], dict[str, Any]], paths: Sequence[str]
) -> Iterator[bytes]:
    import orjson

    row = 0
    for position in range(len(told.tokens)):
        line: dict[str, Any] = {"index": position}
        if paths:
            line["file"] = paths[position]
        if (error := told.errors.get(position)) is not None:
            line["error"] = {"code": error.code, "message": error.message}
        else:
            line |= answer(row)
            line["tokens"] = int(told.tokens[position])
            line["truncated"] = bool(told.truncated[position])
            row += 1
        yield orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)


@contextlib.contextmanager
def opened(output: str | None) -> Iterator[BinaryIO]:
    """Stdout, or a file that is there only once it is whole."""
    if output is None or output == STDIN:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("xb") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise ConfigError(f"--output {output}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def short(text: str) -> str:
    """One line of it, for a table."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1]}…"


def tokens(told: Told, position: int) -> str:
    """How many of an item were computed, for a table."""
    return f"{told.tokens[position]}{' (cut)' if told.truncated[position] else ''}"


def print_table(columns: Sequence[str | Column], rows: Sequence[Sequence[str]], sum_: str) -> None:
    """A table, if it has rows, and below it the sum of all there is."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns)
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console()
    if rows:
        console.print(table)
    console.print(sum_)

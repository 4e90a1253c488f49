"""What the commands that ask a model share: their options, the client, and where answers go.

Decides how answers are written as JSON Lines and which errors are told; not what is asked.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from shoal.cli.context import api_key, gateway_url
from shoal.cli.numbers import decimal, whole
from shoal.cli.texts import STDIN
from shoal.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from shoal.client import Client
    from shoal.client.result import Told

SHOWN_ITEMS, SHOWN_CHARACTERS = 10, 36
#: A bar for what takes a moment only flickers.
BAR_ITEMS = 256

ModelName = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A model the gateway serves: `shoal models list`."),
]
File = Annotated[str | None, typer.Option("--file", "-f", help="A text per line; `-` for stdin.")]
Field = Annotated[
    str | None, typer.Option(help="Lines are JSON objects, with the text in this field.")
]
Files = Annotated[
    bool,
    typer.Option("--files", help="The arguments are paths: of texts, images, audio, folders."),
]
AsLines = Annotated[
    bool, typer.Option("--json", help="JSON Lines, an item each, with tokens and errors.")
]
Lines = Annotated[
    str | None, typer.Option("--output", "-o", help="Write `.jsonl`; `-` for stdout.")
]
Instruction = Annotated[
    str | None,
    typer.Option(help="What the texts are read for, of a model that takes an instruction."),
]
Truncate = Annotated[bool, typer.Option(help="Cut items that are too long, or let them fail.")]
Bulk = Annotated[
    bool, typer.Option("--bulk", help="Run in what interactive work leaves; raise --timeout.")
]
Priority = Annotated[
    int, typer.Option(parser=whole(-10, 10), help="Higher goes first among your own requests.")
]
Url = Annotated[
    str | None, typer.Option(help="The gateway; unset: the one running here. (SHOAL_URL)")
]
Key = Annotated[str | None, typer.Option("--api-key", help="Its key. (SHOAL_API_KEY)")]
Timeout = Annotated[
    float,
    typer.Option(parser=decimal(0.001), help="Most seconds for one request, its retries included."),
]


@contextlib.contextmanager
def connect(url: str | None, key: str | None, timeout_s: float) -> Iterator[Client]:
    """A client of the gateway named, or of the one that runs here, that tells what it waits for.

    Raises `Unavailable` at once where that would be on this machine, and none is.
    """
    import httpx

    from shoal.cli.waiting import Waiting, check_listening
    from shoal.client import Client

    url = gateway_url(url)
    waiting = Waiting(url, timeout_s)
    with httpx.Client(event_hooks={"response": [waiting.answered]}) as http:
        client = Client(
            url, key or api_key(), timeout_s=timeout_s, http=http, on_retry=waiting.retried
        )
        check_listening(url)
        with waiting:
            yield client


def read_schema(path: Path | None) -> dict[str, Any] | None:
    """A JSON schema of a file's. Raises `InvalidRequest` for a file that is no JSON object."""
    import msgspec

    if path is None:
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidRequest(f"{path} is no JSON schema: {error}") from None


def shows_bar(items: int) -> bool:
    """Whether progress is worth a bar, and somebody sees it."""
    return items > BAR_ITEMS and sys.stderr.isatty()


def wants_lines(output: str | None, as_json: bool) -> bool:
    """Whether answers are JSON Lines; else a table. Raises `ConfigError` for another file."""
    if output is not None and output != STDIN and not output.endswith((".jsonl", ".json")):
        raise ConfigError(f"--output {output}: name it .jsonl")
    return as_json or output is not None


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

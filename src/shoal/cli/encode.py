"""`shoal encode`: texts in, vectors out, from a running gateway."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from shoal.cli.context import api_key, gateway_url
from shoal.cli.numbers import decimal, whole
from shoal.cli.texts import STDIN, gather, read_files
from shoal.errors import ConfigError

if TYPE_CHECKING:
    from shoal.client import Encoded

SHOWN_TEXTS, SHOWN_VALUES, SHOWN_CHARACTERS = 10, 4, 36
#: A bar for what takes a moment only flickers.
BAR_TEXTS = 256


class DType(StrEnum):
    """What `--dtype` takes."""

    float32 = "float32"
    float16 = "float16"


def encode(
    model: Annotated[str, typer.Argument(help="A model the gateway serves: `shoal models list`.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; or use --file.")] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", help="A text per line; `-` for stdin.")
    ] = None,
    field: Annotated[
        str | None, typer.Option(help="Lines are JSON objects, with the text in this field.")
    ] = None,
    files: Annotated[
        bool, typer.Option("--files", help="The arguments are paths of images or audio.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Write `.npy` or `.jsonl`; `-` for stdout."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON Lines, a text each, with tokens and errors.")
    ] = False,
    prompt: Annotated[str | None, typer.Option(help="Name of one of the model's prompts.")] = None,
    dimensions: Annotated[
        int | None, typer.Option(parser=whole(1), help="Cut vectors to this many values.")
    ] = None,
    dtype: Annotated[DType, typer.Option(help="Element type of the vectors.")] = DType.float32,
    normalize: Annotated[
        bool | None, typer.Option(help="Unit length or not; unset: as the model's card says.")
    ] = None,
    truncate: Annotated[
        bool, typer.Option(help="Cut texts that are too long, or let them fail.")
    ] = True,
    bulk: Annotated[
        bool, typer.Option("--bulk", help="Run in what interactive work leaves; raise --timeout.")
    ] = False,
    priority: Annotated[
        int,
        typer.Option(parser=whole(-10, 10), help="Higher goes first among your own requests."),
    ] = 0,
    url: Annotated[
        str | None, typer.Option(help="The gateway; unset: the one running here. (SHOAL_URL)")
    ] = None,
    key: Annotated[str | None, typer.Option("--api-key", help="Its key. (SHOAL_API_KEY)")] = None,
    timeout: Annotated[
        float,
        typer.Option(
            parser=decimal(0.001), help="Most seconds for one request, its retries included."
        ),
    ] = 60.0,
) -> None:
    """Turn texts into vectors with a model that a gateway serves.

    shoal encode all-MiniLM-L6-v2 "a fish" "a bird"
    shoal encode all-MiniLM-L6-v2 -f texts.txt -o vectors.npy
    shoal encode my-image-model --files cat.png dog.png
    cat docs.jsonl | shoal encode all-MiniLM-L6-v2 --field text --json
    shoal encode all-MiniLM-L6-v2 -f night.txt -o night.npy --bulk --timeout 600

    Large inputs are cut into requests and joined in order. Exit code 1 if a text has no vector.
    """
    from shoal.client import Client

    form = _form(output, as_json)
    given = gather(texts or [], file, field)
    items: list[str] | list[bytes] = read_files(given) if files else given
    with Client(gateway_url(url), key or api_key(), timeout_s=timeout) as client:
        encoded = client.encode_detailed(
            model,
            items,
            progress=len(given) > BAR_TEXTS and sys.stderr.isatty(),
            prompt=prompt,
            dimensions=dimensions,
            dtype=dtype.value,
            normalize=normalize,
            truncate=truncate,
            bulk=bulk,
            priority=priority,
        )
    _deliver(encoded, given, form, output)
    if encoded.errors:
        raise typer.Exit(1)


def _form(output: str | None, as_json: bool) -> str:
    """``table``, ``jsonl`` or ``npy``. Raises `ConfigError` for a file that is neither."""
    if as_json or (output or "").endswith((".jsonl", ".json")):
        return "jsonl"
    if output is None:
        return "table"
    if output == STDIN or output.endswith(".npy"):
        return "npy"
    raise ConfigError(f"--output {output}: name it .npy or .jsonl, or add --json")


def _deliver(encoded: Encoded, texts: list[str], form: str, output: str | None) -> None:
    for error in encoded.errors.values():
        print(f"error: {error.message}", file=sys.stderr)
    if form == "table":
        _show(encoded, texts)
    elif form == "jsonl":
        with _opened(output) as file:
            file.writelines(_lines(encoded))
    else:
        _save(encoded, output)


def _save(encoded: Encoded, output: str | None) -> None:
    import numpy as np

    if encoded.errors:
        # A row less would shift all rows after it.
        print(
            f"error: texts without a vector: {len(encoded.errors)}, so no .npy was written; "
            "--json writes vectors and errors line by line",
            file=sys.stderr,
        )
        return
    with _opened(output) as file:
        np.save(file, encoded.vectors)


@contextlib.contextmanager
def _opened(output: str | None) -> Iterator[BinaryIO]:
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


def _lines(encoded: Encoded) -> Iterator[bytes]:
    import orjson

    rows = dict(zip(encoded.positions.tolist(), encoded.vectors, strict=True))
    for position in range(len(encoded.tokens)):
        line: dict[str, Any] = {"index": position}
        if (error := encoded.errors.get(position)) is not None:
            line["error"] = {"code": error.code, "message": error.message}
        else:
            line["vector"] = rows[position]
            line["tokens"] = int(encoded.tokens[position])
            line["truncated"] = bool(encoded.truncated[position])
        yield orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)


def _show(encoded: Encoded, texts: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("text", "tokens")
    table.add_column("first values", no_wrap=True)
    shown = list(zip(encoded.positions.tolist(), encoded.vectors, strict=True))[:SHOWN_TEXTS]
    for position, vector in shown:
        tokens = f"{encoded.tokens[position]}{' (cut)' if encoded.truncated[position] else ''}"
        values = " ".join(f"{value:+.4f}" for value in vector[:SHOWN_VALUES])
        table.add_row(Text(_short(texts[position])), tokens, f"{values} …")
    console = Console()
    if shown:
        console.print(table)
    count, dim = encoded.vectors.shape
    console.print(
        f"vectors: {count} × {dim} {encoded.vectors.dtype}, tokens: {encoded.tokens.sum()}"
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1]}…"

"""`shoal encode`: texts and files in, vectors out, from a running gateway."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from shoal.cli.answers import SHOWN_ITEMS, opened, print_table, short, tokens
from shoal.cli.calling import (
    Asking,
    Instruction,
    ModelName,
    Texts,
    Truncate,
    Write,
    asks,
    shows_bar,
)
from shoal.cli.numbers import whole
from shoal.cli.texts import STDIN
from shoal.errors import ConfigError

if TYPE_CHECKING:
    from shoal.client import Encoded

SHOWN_VALUES = 4


Output = Annotated[
    str | None,
    typer.Option("--output", "-o", help="Write `.npy` or `.jsonl`; `-` for stdout."),
]


class DType(StrEnum):
    """What `--dtype` takes."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"
    uint8 = "uint8"
    binary = "binary"


@asks(output=Output)
def encode(
    asking: Asking,
    model: ModelName,
    texts: Texts = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--vectors",
            help="dense, sparse, multivector, fde; several times; unset: the model's first.",
        ),
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="Name of one of the model's prompts.")] = None,
    dimensions: Annotated[
        int | None, typer.Option(parser=whole(1), help="Cut vectors to this many values.")
    ] = None,
    dtype: Annotated[DType, typer.Option(help="Element type of the vectors.")] = DType.float32,
    normalize: Annotated[
        bool | None, typer.Option(help="Unit length or not; unset: as the model's card says.")
    ] = None,
    instruction: Instruction = None,
    truncate: Truncate = True,
) -> None:
    """Turn texts, images and sound into vectors with a model that a gateway serves.

    shoal encode all-MiniLM-L6-v2 "a fish" "a bird"
    shoal encode all-MiniLM-L6-v2 -f texts.txt -o vectors.npy
    shoal encode efficientnet-lite0 --files cat.png photos/
    cat docs.jsonl | shoal encode all-MiniLM-L6-v2 --field text --json
    shoal encode all-MiniLM-L6-v2 -f night.txt -o night.npy --bulk --timeout 600

    Large inputs are cut into requests and joined in order. Exit code 1 if an item has no vector.
    """
    write = _writer(asking, dtype, outputs or [])
    names, items = asking.gather(texts)
    with asking.client() as client:
        encoded = client.encode_detailed(
            model,
            items,
            progress=shows_bar(len(items)),
            outputs=outputs or None,
            prompt=prompt,
            dimensions=dimensions,
            dtype=dtype.value,
            normalize=normalize,
            instruction=instruction,
            truncate=truncate,
            **asking.turn,
        )
    asking.tell(encoded, names, write)


def _writer(asking: Asking, dtype: DType, outputs: list[str]) -> Write[Encoded]:
    """Of a table, JSON Lines or a .npy file. Raises `ConfigError` for a file that is neither."""
    output = asking.output
    if asking.as_json or (output or "").endswith((".jsonl", ".json")):
        return asking.lines(_line)
    if output is None:
        return _show
    if output != STDIN and not output.endswith(".npy"):
        raise ConfigError(f"--output {output}: name it .npy or .jsonl, or add --json")
    if dtype in (DType.int8, DType.uint8) or outputs not in ([], ["dense"]):
        raise ConfigError(
            "a .npy file holds dense vectors alone, and no scales of int8 and uint8: add --json"
        )
    return partial(_save, output=output)


def _line(encoded: Encoded, row: int) -> dict[str, Any]:
    line: dict[str, Any] = {}
    if len(encoded.vectors):
        line["vector"] = encoded.vectors[row]
    if encoded.scale is not None:
        line["scale"] = encoded.scale[row]
    if encoded.zero_point is not None:
        line["zero_point"] = encoded.zero_point[row]
    return line | {name: _plain(rows[row]) for name, rows in encoded.outputs.items()}


def _plain(row: Any) -> Any:
    """Terms as a map of two lists."""
    from shoal.client import Sparse

    return msgspec.structs.asdict(row) if isinstance(row, Sparse) else row


def _save(encoded: Encoded, names: list[str], output: str) -> None:
    import numpy as np

    if encoded.outputs:
        raise ConfigError("this model gives no dense vectors, which .npy holds: add --json")
    if encoded.errors:
        # A row less would shift all rows after it.
        print(
            f"error: texts without a vector: {len(encoded.errors)}, so no .npy was written; "
            "--json writes vectors and errors line by line",
            file=sys.stderr,
        )
        return
    with opened(output) as file:
        np.save(file, encoded.vectors)


def _show(encoded: Encoded, names: list[str]) -> None:
    from rich.table import Column

    columns = ("text", "tokens", Column("first values", no_wrap=True))
    rows = [
        (short(names[position]), tokens(encoded, position), "\n".join(_values(encoded, row)))
        for row, position in enumerate(encoded.positions.tolist()[:SHOWN_ITEMS])
    ]
    print_table(columns, rows, f"{_counted(encoded)}, tokens: {encoded.tokens.sum()}")


def _values(encoded: Encoded, row: int) -> list[str]:
    told = []
    if len(encoded.vectors):
        vector = encoded.vectors[row][:SHOWN_VALUES]
        form = "+d" if vector.dtype.kind in "iu" else "+.4f"
        told.append(" ".join(f"{value:{form}}" for value in vector) + " …")
    for name, rows in encoded.outputs.items():
        told.append(f"{name}: {_size(_plain(rows[row]))}")
    return told


def _size(plain: Any) -> str:
    if isinstance(plain, dict):
        return f"{len(plain['indices'])} terms"
    return f"{len(plain)} {'rows' if plain.ndim == 2 else 'values'}"


def _counted(encoded: Encoded) -> str:
    if not len(encoded.vectors) and encoded.outputs:
        return f"texts: {len(encoded.positions)}"
    count, dim = encoded.vectors.shape
    return f"vectors: {count} × {dim} {encoded.vectors.dtype}"

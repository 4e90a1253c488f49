"""`shoal extract`: texts and files in, what is in them out, from a running gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.answers import SHOWN_ITEMS, print_table, short
from shoal.cli.calling import (
    Asking,
    ModelName,
    Texts,
    Truncate,
    asks,
    read_schema,
    shows_bar,
)
from shoal.cli.numbers import decimal

if TYPE_CHECKING:
    from shoal.client import Extracted, Extraction

#: Of one item, in the table.
SHOWN_FINDS = 5


@asks()
def extract(
    asking: Asking,
    model: ModelName,
    texts: Texts = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", "-l", help="What to look for; several times.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(parser=decimal(0.0), help="Least score; unset: as the model's card says."),
    ] = None,
    multi_label: Annotated[
        bool | None,
        typer.Option(help="Score labels by themselves; unset: as the model's card says."),
    ] = None,
    nested: Annotated[
        bool, typer.Option("--nested", help="Entities may lie inside others.")
    ] = False,
    schema: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="A JSON schema of the fields to fill in, instead."
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="That is spoken, such as de; unset: as it is heard.")
    ] = None,
    translate: Annotated[
        bool, typer.Option("--translate", help="Write what is said in English.")
    ] = False,
    prompt: Annotated[
        str | None, typer.Option(help="What might have been said before a sound: names, spelling.")
    ] = None,
    truncate: Truncate = True,
) -> None:
    """Find entities and classes in texts and images, and write down what is said or written.

    shoal extract rampart-pii "Ada Lovelace lived in London"
    shoal extract gliner_large-v2.5 -f mails.txt -l person -l product --json
    shoal extract gliner_large-v2.5 -f invoices.txt --schema invoice.json --json
    shoal extract efficientnet-lite0 --files photos/
    shoal extract pp-ocrv6-small --files receipts/
    shoal extract whisper-tiny.en --files talk.wav -o talk.jsonl
    cat docs.jsonl | shoal extract rampart-pii --field text -o entities.jsonl

    A folder stands for the files in it. Exit code 1 if an item failed.
    """
    write = asking.writer(_show, _line)
    names, items = asking.gather(texts)
    with asking.client() as client:
        extracted = client.extract_detailed(
            model,
            items,
            progress=shows_bar(len(items)),
            labels=label or None,
            threshold=threshold,
            multi_label=multi_label,
            nested=nested,
            schema=read_schema(schema),
            language=language,
            task="translate" if translate else None,
            prompt=prompt,
            truncate=truncate,
            **asking.turn,
        )
    asking.tell(extracted, names, write)


def _line(extracted: Extracted, row: int) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(extracted.found[row])
    return found


def _show(extracted: Extracted, names: list[str]) -> None:
    shown = list(zip(extracted.positions.tolist(), extracted.found, strict=True))[:SHOWN_ITEMS]
    rows = [(short(names[position]), _told(found)) for position, found in shown]
    sum_ = f"items: {len(extracted.found)}, tokens: {extracted.tokens.sum()}"
    print_table(("item", "found"), rows, sum_)


def _told(found: Extraction) -> str:
    if found.text is not None:
        return found.text.strip()
    if found.fields is not None:
        return "\n".join(_filled_in(found.fields))
    if found.entities is not None:
        finds = [f"{entity.label}: {entity.text}" for entity in found.entities]
    else:
        finds = [f"{label.label} {label.score:.2f}" for label in found.labels or []]
    if not finds:
        return "nothing"
    more = len(finds) - SHOWN_FINDS
    return "\n".join(finds[:SHOWN_FINDS]) + (f"\n… {more} more" if more > 0 else "")


def _filled_in(fields: dict[str, Any], above: str = "") -> Iterator[str]:
    """A line a field, whatever objects it lies in."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _filled_in(value, f"{above}{name}.")
            continue
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        yield f"{above}{name}: {'none' if shown is None or shown == '' else shown}"

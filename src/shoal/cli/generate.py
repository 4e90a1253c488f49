"""`shoal generate`: texts in, what follows them or is answered to them out, from a running gateway."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.calling import (
    SHOWN_ITEMS,
    AsLines,
    Bulk,
    Field,
    File,
    Files,
    Key,
    Lines,
    ModelName,
    Priority,
    Timeout,
    Url,
    connect,
    read_schema,
    short,
    shows_bar,
    tell_errors,
    wants_lines,
    write_lines,
)
from shoal.cli.numbers import decimal, whole
from shoal.cli.texts import gather_items

if TYPE_CHECKING:
    from shoal.client import Client, Generated


def generate(
    model: ModelName,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; paths with --files; or use --file.")
    ] = None,
    file: File = None,
    field: Field = None,
    files: Files = False,
    output: Lines = None,
    as_json: AsLines = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Each text is what a user says in a conversation.")
    ] = False,
    system: Annotated[
        str | None, typer.Option(help="What the model is told before each; with --chat.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", "-n", parser=whole(1), help="Most of one text.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(parser=decimal(0.0, 2.0), help="0 takes the likeliest word each time."),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(parser=decimal(0.0, 1.0), help="Of the likeliest words with this share."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(parser=whole(0), help="The same one gives the same text."),
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="What ends a text; several times.")] = None,
    schema: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Texts are JSON of this JSON schema."),
    ] = None,
    regex: Annotated[str | None, typer.Option(help="Texts are such that this matches.")] = None,
    bulk: Bulk = False,
    priority: Priority = 0,
    url: Url = None,
    key: Key = None,
    timeout: Timeout = 300.0,
) -> None:
    """Go on with texts, or answer them.

    shoal generate smollm2-135m-instruct "Once upon a time" -n 40
    shoal generate smollm2-135m-instruct --chat "Why is the sea salty?"
    shoal generate smollm2-135m-instruct --chat -f mails.txt --schema order.json -o orders.jsonl
    shoal generate smollm2-135m-instruct --files draft.txt --temperature 0

    One text is shown as it is generated. Exit code 1 if an item failed.
    """
    as_lines = wants_lines(output, as_json)
    names, items = gather_items(texts or [], file, field, files)
    prompts = [_prompt(item, chat, system) for item in items]
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "seed": seed,
        "stop": stop or None,
        "schema": read_schema(schema),
        "regex": regex,
        "bulk": bulk,
        "priority": priority,
    }
    with connect(url, key, timeout) as client:
        if len(prompts) == 1 and not as_lines:
            _stream(client, model, prompts[0], options)
            return
        bar = shows_bar(len(items))
        generated = client.generate_detailed(model, prompts, progress=bar, **options)
    paths = names if files else []
    tell_errors(generated, paths)
    if as_lines:
        write_lines(output, generated, lambda row: _line(generated, row), paths)
    else:
        _show(generated, names)
    if generated.errors:
        raise typer.Exit(1)


def _prompt(item: str | bytes, chat: bool, system: str | None) -> Any:
    if not chat:
        return item
    before = [] if system is None else [{"role": "system", "content": system}]
    return [*before, {"role": "user", "content": item}]


def _stream(client: Client, model: str, prompt: Any, options: dict[str, Any]) -> None:
    with client.stream(model, prompt, **options) as pieces:
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
    print()


def _line(generated: Generated, row: int) -> dict[str, Any]:
    import msgspec

    text: dict[str, Any] = msgspec.to_builtins(generated.texts[row])
    return text


def _show(generated: Generated, names: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("item", "text")
    shown = list(zip(generated.positions.tolist(), generated.texts, strict=True))[:SHOWN_ITEMS]
    for position, found in shown:
        table.add_row(Text(short(names[position])), Text(found.text.strip()))
    console = Console()
    if shown:
        console.print(table)
    new = sum(text.new_tokens for text in generated.texts)
    console.print(f"items: {len(generated.texts)}, tokens: {generated.tokens.sum()}, new: {new}")

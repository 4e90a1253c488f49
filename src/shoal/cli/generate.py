"""`shoal generate`: texts in, what follows them or is answered to them out, from a running gateway."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.answers import SHOWN_ITEMS, print_table, short
from shoal.cli.calling import Asking, ModelName, Texts, asks, read_schema, shows_bar
from shoal.cli.numbers import decimal, whole

if TYPE_CHECKING:
    from shoal.client import Client, Generated


@asks(timeout_s=300.0)
def generate(
    asking: Asking,
    model: ModelName,
    texts: Texts = None,
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
) -> None:
    """Go on with texts, or answer them.

    shoal generate smollm2-135m-instruct "Once upon a time" -n 40
    shoal generate smollm2-135m-instruct --chat "Why is the sea salty?"
    shoal generate smollm2-135m-instruct --chat -f mails.txt --schema order.json -o orders.jsonl
    shoal generate smollm2-135m-instruct --files draft.txt --temperature 0

    One text is shown as it is generated. Exit code 1 if an item failed.
    """
    write = asking.writer(_show, _line)
    names, items = asking.gather(texts)
    prompts = [_prompt(item, chat, system) for item in items]
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "seed": seed,
        "stop": stop or None,
        "schema": read_schema(schema),
        "regex": regex,
        **asking.turn,
    }
    with asking.client() as client:
        if len(prompts) == 1 and write is _show:
            _stream(client, model, prompts[0], options)
            return
        bar = shows_bar(len(items))
        generated = client.generate_detailed(model, prompts, progress=bar, **options)
    asking.tell(generated, names, write)


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
    shown = list(zip(generated.positions.tolist(), generated.texts, strict=True))[:SHOWN_ITEMS]
    rows = [(short(names[position]), found.text.strip()) for position, found in shown]
    new = sum(text.new_tokens for text in generated.texts)
    sum_ = f"items: {len(generated.texts)}, tokens: {generated.tokens.sum()}, new: {new}"
    print_table(("item", "text"), rows, sum_)

"""`shoal score`: a query and documents in, how well each answers out, from a running gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.calling import (
    AsLines,
    Bulk,
    Field,
    File,
    Files,
    Instruction,
    Key,
    Lines,
    ModelName,
    Priority,
    Timeout,
    Truncate,
    Url,
    connect,
    short,
    shows_bar,
    tell_errors,
    wants_lines,
    write_lines,
)
from shoal.cli.numbers import whole
from shoal.cli.texts import gather_items

if TYPE_CHECKING:
    from shoal.client import Scored


def score(
    model: ModelName,
    query: Annotated[str, typer.Argument(help="What the documents should answer.")],
    documents: Annotated[list[str] | None, typer.Argument(help="Texts; or use --file.")] = None,
    file: File = None,
    field: Field = None,
    files: Files = False,
    output: Lines = None,
    as_json: AsLines = False,
    top: Annotated[
        int, typer.Option(parser=whole(1), help="Show so many of the best in the table.")
    ] = 10,
    raw: Annotated[bool, typer.Option("--raw", help="Logits.")] = False,
    instruction: Instruction = None,
    truncate: Truncate = True,
    bulk: Bulk = False,
    priority: Priority = 0,
    url: Url = None,
    key: Key = None,
    timeout: Timeout = 60.0,
) -> None:
    """Order documents by how well they answer a query.

    shoal score ms-marco-MiniLM-L-12-v2 "who swims?" "Fish swim." "Birds fly."
    shoal score ms-marco-MiniLM-L-12-v2 "refunds" -f lines.txt --top 3
    shoal score ms-marco-MiniLM-L-12-v2 "refunds" --files handbook/
    cat docs.jsonl | shoal score ms-marco-MiniLM-L-12-v2 "refunds" --field text --json

    The table has the best first, JSON Lines the order of the documents. Exit code 1 if a document
    has no score.
    """
    as_lines = wants_lines(output, as_json)
    names, items = gather_items(documents or [], file, field, files)
    with connect(url, key, timeout) as client:
        scored = client.score_detailed(
            model,
            query,
            items,
            progress=shows_bar(len(items)),
            raw=raw,
            instruction=instruction,
            truncate=truncate,
            bulk=bulk,
            priority=priority,
        )
    paths = names if files else []
    tell_errors(scored, paths)
    if as_lines:
        write_lines(output, scored, lambda row: {"score": scored.scores[row]}, paths)
    else:
        _show(scored, names, top)
    if scored.errors:
        raise typer.Exit(1)


def _show(scored: Scored, names: list[str], top: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("score", "document", "tokens")
    scores = dict(zip(scored.positions.tolist(), scored.scores.tolist(), strict=True))
    for position in scored.ranked().tolist()[:top]:
        cut = " (cut)" if scored.truncated[position] else ""
        tokens = f"{scored.tokens[position]}{cut}"
        table.add_row(f"{scores[position]:.4f}", Text(short(names[position])), tokens)
    console = Console()
    if len(scored.scores):
        console.print(table)
    console.print(f"documents: {len(scored.scores)}, tokens: {scored.tokens.sum()}")

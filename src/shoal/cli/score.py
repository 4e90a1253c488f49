"""`shoal score`: a query and documents in, how well each answers out, from a running gateway."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.answers import print_table, short, tokens
from shoal.cli.calling import Asking, Instruction, ModelName, Truncate, asks, shows_bar
from shoal.cli.numbers import whole

if TYPE_CHECKING:
    from shoal.client import Scored


@asks()
def score(
    asking: Asking,
    model: ModelName,
    query: Annotated[str, typer.Argument(help="What the documents should answer.")],
    documents: Annotated[list[str] | None, typer.Argument(help="Texts; or use --file.")] = None,
    top: Annotated[
        int, typer.Option(parser=whole(1), help="Show so many of the best in the table.")
    ] = 10,
    raw: Annotated[bool, typer.Option("--raw", help="Logits.")] = False,
    instruction: Instruction = None,
    truncate: Truncate = True,
) -> None:
    """Order documents by how well they answer a query.

    shoal score ms-marco-MiniLM-L-12-v2 "who swims?" "Fish swim." "Birds fly."
    shoal score ms-marco-MiniLM-L-12-v2 "refunds" -f lines.txt --top 3
    shoal score ms-marco-MiniLM-L-12-v2 "refunds" --files handbook/
    cat docs.jsonl | shoal score ms-marco-MiniLM-L-12-v2 "refunds" --field text --json

    The table has the best first, JSON Lines the order of the documents. Exit code 1 if a document
    has no score.
    """
    write = asking.writer(partial(_show, top=top), _line)
    names, items = asking.gather(documents)
    with asking.client() as client:
        scored = client.score_detailed(
            model,
            query,
            items,
            progress=shows_bar(len(items)),
            raw=raw,
            instruction=instruction,
            truncate=truncate,
            **asking.turn,
        )
    asking.tell(scored, names, write)


def _line(scored: Scored, row: int) -> dict[str, Any]:
    return {"score": scored.scores[row]}


def _show(scored: Scored, names: list[str], top: int) -> None:
    scores = dict(zip(scored.positions.tolist(), scored.scores.tolist(), strict=True))
    rows = [
        (f"{scores[position]:.4f}", short(names[position]), tokens(scored, position))
        for position in scored.ranked().tolist()[:top]
    ]
    sum_ = f"documents: {len(scored.scores)}, tokens: {scored.tokens.sum()}"
    print_table(("score", "document", "tokens"), rows, sum_)

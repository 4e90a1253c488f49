"""What comes before a text, as its card says."""

from __future__ import annotations

from shoal.catalog.card import Card
from shoal.values import EncodeParams, Params

#: The prompt of what is looked for, and of what it is looked for in.
QUERY, DOCUMENT = "query", "document"


def prompt_of(card: Card, params: Params) -> str:
    """What comes before each text: the card's prompt of the name asked, else its default one."""
    task = card.tasks.encode
    if task is None or not isinstance(params, EncodeParams):
        return ""
    return task.prompts.get(params.prompt or task.default_prompt or "", "")


def is_query(card: Card, params: EncodeParams) -> bool:
    """Whether the texts are queries: late interaction treats these otherwise than documents."""
    task = card.tasks.encode
    return (params.prompt or (task and task.default_prompt)) == QUERY


def as_one_of(card: Card, name: str) -> str | None:
    """The name of this prompt, if the card has it; None: the default one."""
    task = card.tasks.encode
    return name if task is not None and name in task.prompts else None

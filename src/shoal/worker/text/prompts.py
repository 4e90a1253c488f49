"""What comes before a text, as its card and its caller say."""

from __future__ import annotations

from shoal.catalog.card import Card
from shoal.catalog.tasks import INSTRUCTION
from shoal.errors import InvalidRequest
from shoal.values import EncodeParams, Params, TokenizeParams
from shoal.worker.text.tokens import Tokens

#: The prompt of what is looked for, and of what it is looked for in.
QUERY, DOCUMENT = "query", "document"


def prompt_of(card: Card, params: Params) -> str:
    """What comes before each text: the card's prompt of the name asked, else its default one; or
    its form of an instruction, with the caller's."""
    task = card.tasks.encode
    if task is None or not isinstance(params, EncodeParams | TokenizeParams):
        return ""
    said = params.instruction if isinstance(params, EncodeParams) else None
    if said is not None and task.instruction_prompt is not None:
        return task.instruction_prompt.replace(INSTRUCTION, said)
    return task.prompts.get(params.prompt or task.default_prompt or "", "")


def is_query(card: Card, params: EncodeParams) -> bool:
    """Whether the texts are queries: late interaction treats these otherwise than documents.

    What is said with an instruction is one: models are taught to read documents without.
    """
    task = card.tasks.encode
    return (
        params.instruction is not None or (params.prompt or (task and task.default_prompt)) == QUERY
    )


def as_one_of(card: Card, name: str) -> str | None:
    """The name of this prompt, if the card has it; None: the default one."""
    task = card.tasks.encode
    return name if task is not None and name in task.prompts else None


def check_room(tokens: Tokens, prompt: str, room: int) -> None:
    """Raises `InvalidRequest` where a caller's instruction leaves nothing of `room` for a text."""
    (content,) = tokens.content([prompt], room)
    if len(content) >= room:
        raise InvalidRequest(
            f"the instruction leaves no room for a text: the model takes {tokens.limit} tokens",
            param="instruction",
        )

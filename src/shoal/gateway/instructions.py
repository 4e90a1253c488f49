"""What a caller may say of the purpose of its texts, where a model was trained to be told."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from shoal.catalog.card import Card
from shoal.errors import InvalidRequest, PayloadTooLarge
from shoal.values import Task

#: It travels inside every unit, and is read with each text: 4 KiB are some 1,000 tokens, ten times
#: what the instructions of the models' own authors have.
MOST_BYTES = 4 * 1024

Instruction = Annotated[
    str | None,
    Meta(
        description="What the texts are read for, in words of your own, of a model that takes an "
        "instruction; unset: as its card says."
    ),
]


def checked_instruction(asked: str | None, card: Card, task: Task, where: str) -> str | None:
    """What was asked. `where`: its name in the body.

    Raises:
        InvalidRequest: the model takes none, or it is empty.
        PayloadTooLarge: it is too long.
    """
    if asked is None:
        return None
    if task not in card.tasks.instructed():
        prompts = card.tasks.encode.prompts if card.tasks.encode else {}
        names = ", ".join(f"'{name}'" for name in prompts)
        offer = f"; its prompts are {names}" if names and task == "encode" else ""
        raise InvalidRequest(f"model '{card.name}' takes no instruction{offer}", param=where)
    if not asked.strip():
        raise InvalidRequest(f"{where} is empty", param=where)
    size = len(asked.encode())
    if size > MOST_BYTES:
        raise PayloadTooLarge(f"{where} has {size} bytes; it may have {MOST_BYTES}", param=where)
    return asked

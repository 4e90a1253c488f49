"""Which way the documents of a query are prepared, by the head that scores them."""

from __future__ import annotations

from typing import Protocol

from shoal.catalog.card import Card
from shoal.errors import ShoalError
from shoal.tasks.encode import Item
from shoal.values import ScoreParams
from shoal.worker.prepared import Prepared
from shoal.worker.text.encode import EncodeTexts
from shoal.worker.text.late import LateTexts
from shoal.worker.text.pairs import CrossEncoderTexts, TemplateTexts
from shoal.worker.text.tokens import Tokens


class ScoreTexts(Protocol):
    """How the documents of a query are prepared."""

    def prepare(
        self, items: list[Item], params: ScoreParams, query: str
    ) -> list[Prepared | ShoalError]:
        """Each document with what it needs of the query, or its error."""
        ...


def score_texts(card: Card, tokens: Tokens, encode: EncodeTexts) -> ScoreTexts | None:
    """As the card's head needs them; None where it has none. Raises `ModelLoadFailed`."""
    task = card.tasks.score
    if task is None:
        return None
    match task.head:
        case "cross-encoder":
            return CrossEncoderTexts(tokens)
        case "yes-no":
            return TemplateTexts(card, tokens, task.template or "")
        case "maxsim" | "cosine":
            return LateTexts(card, encode, tokens=task.head == "maxsim")

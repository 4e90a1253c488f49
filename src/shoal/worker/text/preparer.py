"""Items of one model that takes tokens, whatever is asked of it.

Runs in the preparing threads, never on the event loop. Knows a tokenizer file, no runtime.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from shoal.catalog.card import Card
from shoal.errors import InvalidItem, InvalidRequest, ShoalError
from shoal.tasks.encode import Item
from shoal.values import (
    EncodeParams,
    ExtractParams,
    GenerateParams,
    Params,
    ScoreParams,
    TokenizeParams,
)
from shoal.worker.prepared import Prepared
from shoal.worker.text.encode import EncodeTexts
from shoal.worker.text.extract import extract_texts
from shoal.worker.text.generate import GenerateTexts, Shows
from shoal.worker.text.score import score_texts
from shoal.worker.text.tokenize import TokenizeTexts
from shoal.worker.text.tokens import Tokens


class TextPreparer:
    """Tokenizer and limits of one model (`tokens`), and how its tasks use them."""

    slow = False

    def __init__(self, card: Card, folder: Path, shows: Shows | None = None) -> None:
        """`shows`: of a model that reads images in conversations.

        Raises `ModelLoadFailed` for a tokenizer that cannot be read, or used.
        """
        self.tokens = tokens = Tokens(card, folder)
        self._name = card.name
        self._encode = EncodeTexts(card, tokens)
        self._score = score_texts(card, tokens, self._encode)
        self._extract = extract_texts(card, tokens, folder)
        generates = card.tasks.generate is not None
        self._generate = GenerateTexts(card, tokens, folder, shows) if generates else None
        self._tokenize = TokenizeTexts(card, tokens)

    @property
    def probe(self) -> Item:
        return "ready"

    def prepare(
        self, items: list[Item], params: Params, query: Item | None = None
    ) -> list[Prepared | ShoalError]:
        """Token ids of each item, or its error."""
        match params:
            case EncodeParams():
                return self._encode.prepare(items, params)
            case ScoreParams():
                if not isinstance(query, str):
                    raise InvalidItem("the query must be a text", param="query")
                if self._score is not None:
                    return self._score.prepare(items, params, query)
            case ExtractParams():
                if self._extract is not None:
                    return self._extract.prepare(items, params)
            case TokenizeParams():
                return self._tokenize.prepare(items, params)
            case GenerateParams():
                if self._generate is not None:
                    return self._generate.prepare(items, params)
            case _:
                assert_never(params)
        return [InvalidRequest(f"'{self._name}' does not do this task")] * len(items)

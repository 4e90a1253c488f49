"""Query and document as one sequence, for models that read both together."""

from __future__ import annotations

from functools import partial

from shoal.catalog.card import Card
from shoal.catalog.tasks import INSTRUCTION
from shoal.errors import ModelLoadFailed, ShoalError
from shoal.tasks.encode import Item
from shoal.tasks.score import shares
from shoal.values import ScoreParams
from shoal.worker.prepared import Prepared
from shoal.worker.text.prompts import check_room
from shoal.worker.text.sequence import Frame, array_of, each, text_only, texts_in, too_many
from shoal.worker.text.tokens import Tokens


class Pairs:
    """Two texts as one sequence, laid out by the model's own tokenizer."""

    def __init__(self, tokens: Tokens) -> None:
        """Raises `ModelLoadFailed` for a tokenizer that makes no pairs."""
        self._limit = tokens.limit
        self._frame = tokens.around_two()
        self.room = tokens.limit - self._frame.count

    def joined(
        self, first: list[int], second: list[int], stay: tuple[int, int], *, truncate: bool
    ) -> Prepared:
        """One sequence of so many ids of each text. Raises `TooManyTokens` where none may be cut."""
        frame = self._frame
        truncated = stay != (len(first), len(second))
        if truncated and not truncate:
            # Of a long text no more was looked at than tells that it is too long.
            counted = self.room + 1 not in (len(first), len(second))
            count = len(first) + len(second) + frame.count
            raise too_many(count if counted else None, self._limit)
        head = [*frame.before, *first[: stay[0]]]
        ids = array_of([*head, *frame.between, *second[: stay[1]], *frame.after])
        split = 0 if frame.of_first is None else len(head) + frame.of_first
        return Prepared(ids=ids, length=len(ids), truncated=truncated, split=split)


class CrossEncoderTexts:
    """The query, then the document; `tasks.score.shares` says what of them stays."""

    def __init__(self, tokens: Tokens) -> None:
        """Raises `ModelLoadFailed` for a tokenizer that makes no pairs."""
        self._tokens = tokens
        self._pairs = Pairs(tokens)

    def prepare(
        self, items: list[Item], params: ScoreParams, query: str
    ) -> list[Prepared | ShoalError]:
        """Token ids of each pair, or its error."""
        room = self._pairs.room
        (first,) = self._tokens.content([query], room)
        most = params.document_tokens

        def pair(second: list[int]) -> Prepared:
            wanted = len(second) if most is None else min(len(second), most)
            stay = shares(len(first), wanted, room)
            return self._pairs.joined(first, second, stay, truncate=params.truncate)

        return each(items, self._tokens.content(texts_in(items), room), pair, text_only)


class TemplateTexts:
    """Both in the text of a question that a generator answers with yes or no."""

    def __init__(self, card: Card, tokens: Tokens, template: str) -> None:
        """Raises `ModelLoadFailed` for a template without ``{query}`` before ``{document}``."""
        self._head, found, tail = template.partition("{document}")
        if not found or "{query}" not in self._head:
            raise ModelLoadFailed(
                f"card '{card.name}': `template` of `score` needs {{query}}, then {{document}}"
            )
        self._instruction = (card.tasks.score and card.tasks.score.default_instruction) or ""
        self._tokens = tokens
        (after,) = tokens.content([tail], tokens.limit)
        self._frame = Frame(tokens.before, [*after, *tokens.after], tokens.limit)

    def prepare(
        self, items: list[Item], params: ScoreParams, query: str
    ) -> list[Prepared | ShoalError]:
        """Token ids of each question, or its error; what is too long is cut at the document's end.

        Raises `InvalidRequest` for an instruction that leaves no room for a text.
        """
        instruction = self._instruction if params.instruction is None else params.instruction
        before, _, after = (
            part.replace(INSTRUCTION, instruction) for part in self._head.partition("{query}")
        )
        if params.instruction is not None:
            check_room(self._tokens, before + after, self._frame.room)
        head = before + query + after
        contents = self._tokens.content(texts_in(items), self._frame.room, head)
        fit = partial(self._frame.fit, truncate=params.truncate)
        return each(items, contents, fit, text_only)

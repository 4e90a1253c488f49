"""Texts that something is read from: labels of the whole, of its tokens, or of a caller's own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from tokenizers import Encoding

from shoal.catalog.card import Card
from shoal.errors import InvalidRequest, ModelLoadFailed, ShoalError
from shoal.tasks.encode import Item
from shoal.tasks.entities import Entities, Located, scheme_of
from shoal.tasks.labels import ZeroShot, entailment_of
from shoal.tasks.windows import most_tokens, windows
from shoal.values import ExtractParams
from shoal.worker.labels import Classifier, classifier_of
from shoal.worker.prepared import Prepared, several
from shoal.worker.text.filling import fields_of, filling, matched
from shoal.worker.text.pairs import Pairs
from shoal.worker.text.sequence import Frame, each, text_only, texts_in, too_many
from shoal.worker.text.spans import SpanTexts
from shoal.worker.text.tokens import Tokens, shown

#: transformers' own.
TEMPLATE = "This example is {label}."


class Extracts(Protocol):
    """How texts are prepared for one kind of extractor."""

    def prepare(self, items: list[Item], params: ExtractParams) -> list[Prepared | ShoalError]:
        """Each text, with what makes an answer of its rows, or its error."""
        ...


class LabelledTexts:
    """One sequence a text, of which the model says a number for each label."""

    def __init__(self, tokens: Tokens, classifier: Classifier) -> None:
        self._tokens = tokens
        self._classifier = classifier
        self._frame = Frame(tokens.before, tokens.after, tokens.limit)

    def prepare(self, items: list[Item], params: ExtractParams) -> list[Prepared | ShoalError]:
        """Raises `InvalidRequest` for labels that the model has not."""
        finish = self._classifier.labels(params)
        contents = self._tokens.content(texts_in(items), self._frame.room)
        made = partial(self._frame.fit, truncate=params.truncate, finish=finish)
        return each(items, contents, made, text_only)


class EntityTexts:
    """A text in windows, of which the model labels each token."""

    def __init__(self, tokens: Tokens, classifier: Classifier) -> None:
        self._tokens = tokens
        self._classifier = classifier
        self._scheme = scheme_of(classifier.names)
        self._frame = Frame(tokens.before, tokens.after, tokens.limit)
        self._most = most_tokens(self._frame.room)

    def prepare(self, items: list[Item], params: ExtractParams) -> list[Prepared | ShoalError]:
        """Raises `InvalidRequest` for types of entities that the model has not."""
        fields = matched(fields_of(params), self._scheme.names)
        wanted = self._classifier.wanted(params, self._scheme.names)
        threshold = self._classifier.threshold(params)
        texts = texts_in(items)
        shortened = [text[: shown(self._most)] for text in texts]
        located = zip(texts, self._tokens.located(shortened), strict=True)

        def made(text_and_tokens: tuple[str, Encoding]) -> Prepared:
            text, encoding = text_and_tokens
            cut = len(encoding.ids) > self._most or len(text) > shown(self._most)
            if cut and not params.truncate:
                raise too_many(None, self._most)
            spans = windows(min(len(encoding.ids), self._most), self._frame.room)
            parts = [self._frame.fit(encoding.ids[s.start : s.stop], truncate=True) for s in spans]
            at = self._located(text, encoding)
            before = len(self._frame.before)
            finish = Entities(at, self._scheme, spans, before, wanted, threshold)
            return filling(several(parts, finish, truncated=cut), text, fields)

        return each(items, located, made, text_only)

    def _located(self, text: str, encoding: Encoding) -> Located:
        offsets = np.array(encoding.offsets[: self._most], np.int32).reshape(-1, 2)
        words = [-1 if word is None else word for word in encoding.word_ids[: self._most]]
        return Located(text, offsets[:, 0], offsets[:, 1], np.array(words, np.int32))


class ZeroShotTexts:
    """A text with each of the caller's labels: does it entail what the template says of it?"""

    def __init__(self, card: Card, tokens: Tokens, classifier: Classifier) -> None:
        """Raises `ModelLoadFailed` for a model that does not say which label is entailment."""
        columns = entailment_of(classifier.names)
        if columns is None:
            raise ModelLoadFailed(
                f"card '{card.name}': none of the labels {', '.join(classifier.names)} is named "
                "entailment; list them under `labels`, by index"
            )
        self._tokens = tokens
        self._classifier = classifier
        self._pairs = Pairs(tokens)
        self._entailment, self._contradiction = columns
        self._template = classifier.task.template or TEMPLATE

    def prepare(self, items: list[Item], params: ExtractParams) -> list[Prepared | ShoalError]:
        """Raises `InvalidRequest` where there are no labels, or one is too long."""
        labels = tuple(dict.fromkeys(params.labels or ()))
        if not labels:
            raise InvalidRequest(
                "this model takes any labels, and needs some: give `labels`", param="labels"
            )
        room = self._pairs.room
        said = [self._template.replace("{label}", label) for label in labels]
        claims = list(self._tokens.content(said, room))
        for label, claim in zip(labels, claims, strict=True):
            if len(claim) >= room:
                raise InvalidRequest(
                    f"label '{label[:80]}' leaves no room for a text", param="labels"
                )
        multi_label = params.multi_label
        finish = ZeroShot(
            labels,
            self._entailment,
            self._contradiction,
            self._classifier.task.multi_label if multi_label is None else multi_label,
            self._classifier.threshold(params),
        )

        def made(content: list[int]) -> Prepared:
            return several([self._pair(content, claim, params) for claim in claims], finish)

        return each(items, self._tokens.content(texts_in(items), room), made, text_only)

    def _pair(self, content: list[int], claim: list[int], params: ExtractParams) -> Prepared:
        """The text is cut, and the claim kept."""
        stay = (min(len(content), self._pairs.room - len(claim)), len(claim))
        return self._pairs.joined(content, claim, stay, truncate=params.truncate)


def extract_texts(card: Card, tokens: Tokens, folder: Path) -> Extracts | None:
    """As the card's head needs them; None where no text is read. Raises `ModelLoadFailed`."""
    task = card.tasks.extract
    if task is not None and task.head == "spans":
        return SpanTexts(card, task, tokens, folder)
    if task is None or task.head not in ("token-labels", "sequence-labels", "nli"):
        return None
    classifier = classifier_of(card, task, folder)
    match task.head:
        case "token-labels":
            return EntityTexts(tokens, classifier)
        case "sequence-labels":
            return LabelledTexts(tokens, classifier)
    return ZeroShotTexts(card, tokens, classifier)

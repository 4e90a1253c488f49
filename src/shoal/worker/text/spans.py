"""Texts in which labels of the caller's own are looked for: a prompt with the labels, then the words.

Layout and words are GLiNER's; reference: `gliner.data_processing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from shoal.catalog.card import Card
from shoal.catalog.document import read_json
from shoal.catalog.gliner import FILE, SAVE_ANEW, GlinerConfig
from shoal.catalog.tasks import ExtractTask
from shoal.errors import InvalidRequest, ShoalError
from shoal.tasks.encode import Item
from shoal.tasks.spans import THRESHOLD, Asked, Spans, Words
from shoal.tasks.windows import most_tokens, word_windows
from shoal.values import ExtractParams
from shoal.worker.prepared import Prepared, several
from shoal.worker.text.filling import fields_of, filling
from shoal.worker.text.sequence import Frame, each, text_only, texts_in, too_many
from shoal.worker.text.tokens import Tokens, shown

#: Letters and digits, with hyphens between them; any other character by itself. The reference parts
#: a letter from an accent that is a character of its own, and then counts words that have no tokens.
_WORD = re.compile(r"\w[\w\u0300-\u036f]*(?:-\w[\w\u0300-\u036f]*)*|\S")
#: Marks of tokens that stand for a word, and for a label (`Run.marks`).
_IS_WORD, _IS_LABEL = 1, 2


class _Prompt(NamedTuple):
    """What stands before the words: ids, and which of them stand for a label."""

    labels: tuple[str, ...]
    frame: Frame
    marks: list[int]


class _Text(NamedTuple):
    """The words of a text that have tokens.

    Attributes:
        ids: int32 [tokens]. `marks`: uint8 [tokens].
        token_ends: [words], tokens up to and with each.
        cut: whether there is more of it.
    """

    words: Words
    ids: NDArray[np.int32]
    marks: NDArray[np.uint8]
    token_ends: NDArray[np.int64]
    cut: bool


class SpanTexts:
    """A text in windows of words, behind each prompt that its labels need."""

    def __init__(self, card: Card, task: ExtractTask, tokens: Tokens, folder: Path) -> None:
        """Raises `ModelLoadFailed` where the tokenizer does not know the tokens of prompts."""
        self._task = task
        self._tokens = tokens
        self._config = read_json(folder / FILE, GlinerConfig)
        self._before_label = self._id(self._config.ent_token)
        self._after_labels = self._id(self._config.sep_token)
        if self._config.class_token_index not in (-1, self._before_label):
            raise tokens.unusable(
                f"{self._config.ent_token} is {self._before_label}, not "
                f"{self._config.class_token_index} as {FILE} says; {SAVE_ANEW}"
            )
        #: Of the tokens of a sequence, labels have at most half: an entity is known by its context.
        self._room = (tokens.limit - len(tokens.before) - len(tokens.after)) // 2
        self._longest = shown(most_tokens(tokens.limit))

    def _id(self, token: str) -> int:
        found = self._tokens.id_of(token)
        if found is None:
            raise self._tokens.unusable(f"it has no token {token}; {SAVE_ANEW}")
        return found

    def prepare(self, items: list[Item], params: ExtractParams) -> list[Prepared | ShoalError]:
        """Raises `InvalidRequest` where there are no labels, or one is too long."""
        fields = [(field, field.labels[0]) for field in fields_of(params)]
        named = [label for _, label in fields] or params.labels or self._task.labels
        labels = tuple(dict.fromkeys(named))
        if not labels:
            raise InvalidRequest(
                "this model finds what it is told to: give `labels`", param="labels"
            )
        prompts = self._prompts(labels, "schema" if fields else "labels")

        def made(text: _Text) -> Prepared:
            return filling(self._prepared(text, prompts, params), text.words.text, fields)

        return each(items, self._texts(texts_in(items)), made, text_only)

    def _prompts(self, labels: tuple[str, ...], given: str) -> list[_Prompt]:
        """One, or as many as hold all labels.

        Raises `InvalidRequest` for one that none holds, of the parameter that they were `given` in.
        """
        groups: list[list[tuple[str, list[int]]]] = [[]]
        left = room = self._room - 1
        for label, encoding in zip(
            labels, self._tokens.of_words([[label] for label in labels]), strict=True
        ):
            needed = 1 + len(encoding.ids)
            if not encoding.ids:
                text = f"label '{label[:80]}' has no letters that this model knows"
                raise InvalidRequest(text, param=given)
            if needed > room:
                text = f"label '{label[:80]}' leaves no room for a text"
                raise InvalidRequest(text, param=given)
            if needed > left:
                groups.append([])
                left = room
            left -= needed
            groups[-1].append((label, encoding.ids))
        return [self._prompt(group) for group in groups]

    def _prompt(self, group: list[tuple[str, list[int]]]) -> _Prompt:
        tokens, ids, marks = self._tokens, [], []
        for _, label in group:
            ids += [self._before_label, *label]
            own = [0] * (len(label) + 1)
            own[0 if self._config.embed_ent_token else 1] = _IS_LABEL
            marks += own
        before = [*tokens.before, *ids, self._after_labels]
        marks = [0] * len(tokens.before) + marks + [0]
        return _Prompt(
            tuple(label for label, _ in group), Frame(before, tokens.after, tokens.limit), marks
        )

    def _texts(self, texts: list[str]) -> Iterator[_Text]:
        found = [list(_WORD.finditer(text, 0, self._longest)) for text in texts]
        encodings = self._tokens.of_words([[word.group() for word in words] for words in found])
        for text, words, encoding in zip(texts, found, encodings, strict=True):
            at = np.array([word.span() for word in words], np.int64).reshape(-1, 2)
            yield self._text(text, at, encoding)

    def _text(self, text: str, at: NDArray[np.int64], encoding: Encoding) -> _Text:
        """at: [words, 2], where they begin and end."""
        numbers = np.array(encoding.word_ids, np.int64)
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        ends = np.append(first[1:], len(numbers)) if len(first) else first
        # A word longer than a window is cut; what stands for it must be in what stays.
        last = np.minimum(ends, first + self._room) - 1
        marks = np.zeros(len(numbers), np.uint8)
        marks[first if self._config.subtoken_pooling == "first" else last] = _IS_WORD
        kept = at[numbers[first]]
        words = Words(text, kept[:, 0], kept[:, 1])
        ids = np.array(encoding.ids, np.int32)
        return _Text(words, ids, marks, ends, len(text) > self._longest)

    def _prepared(self, text: _Text, prompts: list[_Prompt], params: ExtractParams) -> Prepared:
        asked, parts, cut = [], [], text.cut
        for prompt in prompts:
            windows = word_windows(text.token_ends, prompt.frame.room, self._config.max_len)
            asked.append(Asked(prompt.labels, windows))
            parts += [self._part(text, prompt, window) for window in windows]
            cut = cut or windows[-1].stop < len(text.token_ends)
        if cut and not params.truncate:
            raise too_many(None, most_tokens(self._room))
        multi_label, threshold = params.multi_label, params.threshold
        if threshold is None:
            threshold = THRESHOLD if self._task.threshold is None else self._task.threshold
        finish = Spans(
            text.words,
            self._config.max_width,
            tuple(asked),
            threshold,
            self._task.multi_label if multi_label is None else multi_label,
            params.nested,
        )
        return several(parts, finish, truncated=cut)

    def _part(self, text: _Text, prompt: _Prompt, window: range) -> Prepared:
        frame = prompt.frame
        ends = text.token_ends
        start = int(ends[window.start - 1]) if window.start else 0
        stop = min(int(ends[window.stop - 1]) if window else 0, start + frame.room)
        part = frame.fit(text.ids[start:stop].tolist(), truncate=True)
        marks = [
            np.array(prompt.marks, np.uint8),
            text.marks[start:stop],
            np.zeros(len(frame.after), np.uint8),
        ]
        return msgspec.structs.replace(part, marks=np.concatenate(marks))

"""`extract`: labels of tokens to entities, with where they stand in the caller's own text. Pure.

Neighbouring tokens of one type are one entity, as transformers' ``simple`` aggregation has it, and
its score is their mean. Beyond that: the pieces of a word never part (where they differ, the word
takes the label that is likeliest for all of them), and what stands in one piece of text, such as
the parts of an e-mail address, is one entity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import combining

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.tasks.labels import softmax
from shoal.tasks.outputs import EXTRACT, Rows
from shoal.tasks.windows import stitched
from shoal.wire.objects import Entity

_PREFIXED = re.compile(r"[BIESLU]-.")
#: Labels of tokens that belong to nothing.
_OUTSIDE = frozenset({"O", "OUTSIDE", "[PAD]", "<pad>"})
#: Scripts that write no spaces: there, neighbours may be different words. Thai, Lao, Burmese, Khmer,
#: kana, Chinese characters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
#: What stands inside addresses, between letters and digits, and not between two names.
_INNER = frozenset("@._")

_encode = msgspec.msgpack.Encoder().encode


class Scheme(msgspec.Struct, frozen=True):
    """What the labels of a token classifier mean.

    Attributes:
        names: of the types of entities.
        types: by label, its type; -1: none.
        begins, ends: by label, whether its token is the first or the last of an entity.
    """

    names: tuple[str, ...]
    types: NDArray[np.int64]
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]


def scheme_of(labels: tuple[str, ...]) -> Scheme:
    """BIO, BIOES and BILOU where all labels have such prefixes; else each label is a type."""
    inside = [label for label in labels if label not in _OUTSIDE]
    prefixed = bool(inside) and all(_PREFIXED.match(label) for label in inside)
    bare = {label: label[2:] if prefixed else label for label in inside}
    names = tuple(dict.fromkeys(bare.values()))
    places = {name: place for place, name in enumerate(names)}
    first = [label[0] if prefixed and label in bare else "I" for label in labels]
    return Scheme(
        names,
        np.array([places[bare[label]] if label in bare else -1 for label in labels], np.int64),
        np.array([letter in "BSU" for letter in first], bool),
        np.array([letter in "ESLU" for letter in first], bool),
    )


class Located(msgspec.Struct, frozen=True):
    """A text and its tokens.

    Attributes:
        starts, ends: of each token, in code points of the text.
        words: of each token, which of the tokenizer's words it is of.
    """

    text: str
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    words: NDArray[np.int32]

    def end_of(self, token: int) -> int:
        """Where it ends, with the accents that some tokenizers drop behind a letter."""
        end = int(self.ends[token])
        while end < len(self.text) and combining(self.text[end]):
            end += 1
        return end

    def is_inside_word(self, token: int) -> bool:
        """Whether this token goes on with the word of the one before it."""
        if token == 0 or self.words[token] != self.words[token - 1]:
            return False
        end, start = self.end_of(token - 1), int(self.starts[token])
        if not 0 < end == start < len(self.text):
            return False
        left, right = self.text[self.ends[token - 1] - 1], self.text[start]
        return left.isalnum() and right.isalnum() and not _UNSPACED.match(left + right)

    def is_one_piece(self, end: int, start: int) -> bool:
        """Whether what ends and what starts there stands in one piece of text."""
        left, right = self.text[end - 1 : end], self.text[start : start + 1]
        if end == start:
            return not (_UNSPACED.match(left) or _UNSPACED.match(right))
        inner = start == end + 1 and self.text[end] in _INNER
        return inner and left.isalnum() and right.isalnum()


class _Entity:
    __slots__ = ("first", "last", "scores", "type")

    def __init__(self, token: int, type_: int, score: float) -> None:
        self.first = self.last = token
        self.type = type_
        self.scores = [score]

    def join(self, last: int, scores: list[float]) -> None:
        self.last = last
        self.scores += scores

    @property
    def score(self) -> float:
        return sum(self.scores) / len(self.scores)


class Entities(msgspec.Struct, frozen=True):
    """What is told of the logits of an item's tokens.

    Attributes:
        windows: the tokens of each sequence, without its special ones, of which `before` come first.
        wanted: types that are told; None: all.
        threshold: least score of what is told.
    """

    located: Located
    scheme: Scheme
    windows: list[range]
    before: int
    wanted: frozenset[str] | None = None
    threshold: float | None = None

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> bytes:
        """``{"entities": [{"text", "label", "score", "start", "end"}]}`` in the order of the text."""
        return _encode({"entities": self.entities(rows)})

    def entities(self, rows: Sequence[Rows]) -> list[Entity]:
        """Those that are told, in the order of the text."""
        said = [np.asarray(row[EXTRACT]) for row in rows]
        scores = softmax(stitched(said, self.windows, self.before))
        found = [self._told(entity) for entity in self._entities(scores)]
        return [entity for entity in found if self._tells(entity)]

    def _tells(self, entity: Entity) -> bool:
        wanted = self.wanted is None or entity.label in self.wanted
        return wanted and (self.threshold is None or entity.score >= self.threshold)

    def _told(self, entity: _Entity) -> Entity:
        at = self.located
        start, end = int(at.starts[entity.first]), at.end_of(entity.last)
        text = at.text[start:end]
        # Some tokenizers count the space before a word as its own.
        start += len(text) - len(text.lstrip())
        text = text.strip()
        label = self.scheme.names[entity.type]
        return Entity(text, label, entity.score, start, start + len(text))

    def _entities(self, scores: NDArray[np.float32]) -> list[_Entity]:
        labels = self._labels(scores)
        types = self.scheme.types[labels]
        best = scores[np.arange(len(labels)), labels]
        groups: list[_Entity] = []
        for token in np.flatnonzero(types >= 0).tolist():
            type_, score = int(types[token]), float(best[token])
            if groups and self._goes_on(groups[-1], token, labels, type_):
                groups[-1].join(token, [score])
            else:
                groups.append(_Entity(token, type_, score))
        return self._whole(groups)

    def _labels(self, scores: NDArray[np.float32]) -> NDArray[np.int64]:
        """The likeliest label of each token; of words whose pieces differ, that of the word."""
        labels: NDArray[np.int64] = scores.argmax(axis=1)
        types = self.scheme.types[labels]
        inside = self.located.is_inside_word
        done = 0
        for token in (np.flatnonzero(types[1:] != types[:-1]) + 1).tolist():
            if token < done or not inside(token):
                continue
            first, done = token - 1, token + 1
            while inside(first):
                first -= 1
            while done < len(labels) and inside(done):
                done += 1
            labels[first:done] = scores[first:done].mean(axis=0).argmax()
        return labels

    def _goes_on(self, entity: _Entity, token: int, labels: NDArray[np.int64], type_: int) -> bool:
        """Whether this token belongs to the entity before it."""
        if token != entity.last + 1 or type_ != entity.type:
            return False
        parted = self.scheme.begins[labels[token]] or self.scheme.ends[labels[token - 1]]
        return not parted or self.located.is_inside_word(token)

    def _whole(self, groups: list[_Entity]) -> list[_Entity]:
        """Neighbours of one type that stand in one piece of text, as one."""
        whole: list[_Entity] = []
        at = self.located
        for entity in groups:
            last = whole[-1] if whole else None
            if last is not None and last.type == entity.type:
                end, start = at.end_of(last.last), int(at.starts[entity.first])
                if at.is_one_piece(end, start):
                    last.join(entity.last, entity.scores)
                    continue
            whole.append(entity)
        return whole

"""`extract`: logits of spans of words to entities of labels that a caller named. Pure.

Reference: `gliner.decoding.SpanDecoder`: the likeliest span first, and none that overlaps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.tasks.outputs import EXTRACT, Rows
from shoal.tasks.score import sigmoid
from shoal.tasks.windows import nearest
from shoal.wire.objects import Entity

#: Least score where neither card nor caller says one: the reference's.
THRESHOLD = 0.5
#: Spans of an item that are looked at, the likeliest. A page full of names has a few hundred above
#: the threshold; a threshold of 0 would make every span of a book an entity of every label.
MOST = 10_000

_encode = msgspec.msgpack.Encoder().encode


class Asked(NamedTuple):
    """Labels that were looked for together, and the windows of words in which they were."""

    labels: tuple[str, ...]
    windows: list[range]


class Words(msgspec.Struct, frozen=True):
    """A text, and where its words lie in it, in code points."""

    text: str
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


class Candidates(NamedTuple):
    """Spans [n]: first and last word, which of the labels, score."""

    first: NDArray[Any]
    last: NDArray[Any]
    label: NDArray[Any]
    score: NDArray[np.float32]


class Spans(msgspec.Struct, frozen=True):
    """What is told of the logits of an item's spans.

    Attributes:
        width: words of the longest span.
        asked: one sequence each window, in this order.
        multi_label: whether the same span may have several labels.
        nested: whether a span may lie inside another.
    """

    words: Words
    width: int
    asked: tuple[Asked, ...]
    threshold: float = THRESHOLD
    multi_label: bool = False
    nested: bool = False

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> bytes:
        """``{"entities": [{"text", "label", "score", "start", "end"}]}`` in the order of the text."""
        return _encode({"entities": self.entities(rows)})

    def entities(self, rows: Sequence[Rows]) -> list[Entity]:
        """Those that are told, in the order of the text."""
        names = [label for group in self.asked for label in group.labels]
        found = self._likeliest(rows)
        kept = sorted(
            (int(found.first[n]), int(found.last[n]), int(found.label[n]), float(found.score[n]))
            for n in self._kept(found)
        )
        return [
            self._entity(first, last, names[label], score) for first, last, label, score in kept
        ]

    def _entity(self, first: int, last: int, label: str, score: float) -> Entity:
        start, end = int(self.words.starts[first]), int(self.words.ends[last])
        return Entity(self.words.text[start:end], label, score, start, end)

    def _likeliest(self, rows: Sequence[Rows]) -> Candidates:
        """Those from the threshold on, best first; among equals those that come first."""
        parts = list(self._parts(iter(rows)))
        first, last, label = (np.concatenate([part[n] for part in parts]) for n in range(3))
        score = np.concatenate([part.score for part in parts])
        order = np.lexsort((label, last, first, -score))[:MOST]
        return Candidates(first[order], last[order], label[order], score[order])

    def _parts(self, rows: Iterator[Rows]) -> Iterator[Candidates]:
        before = 0
        for group in self.asked:
            for window, own in zip(group.windows, nearest(group.windows), strict=True):
                logits = np.asarray(next(rows)[EXTRACT])
                yield self._of_window(logits, window, own, len(group.labels), before)
            before += len(group.labels)

    def _of_window(
        self, logits: NDArray[np.float32], window: range, own: range, labels: int, before: int
    ) -> Candidates:
        """Those whose middle is this window's own; `before`: labels of other sequences."""
        count = len(window)
        wider = np.repeat(
            np.arange(min(self.width, count)), count - np.arange(min(self.width, count))
        )
        starts = [np.arange(count - k) for k in range(min(self.width, count))]
        first = np.concatenate([np.zeros(0, np.int64), *starts]) + window.start
        scores = sigmoid(logits.reshape(len(first), labels))
        middle = 2 * first + wider
        mine = (middle >= 2 * own.start) & (middle < 2 * own.stop)
        span, label = np.nonzero((scores >= self.threshold) & mine[:, None])
        return Candidates(first[span], (first + wider)[span], label + before, scores[span, label])

    def _kept(self, found: Candidates) -> Iterator[int]:
        """The places of those that no likelier one excludes."""
        taken = bytearray(len(self.words.starts))
        kept: dict[int, set[int]] = {}
        for n, (first, last) in enumerate(
            zip(found.first.tolist(), found.last.tolist(), strict=True)
        ):
            if last in kept.get(first, ()):
                if self.multi_label:
                    yield n
                continue
            if any(taken[first : last + 1]) and not (
                self.nested and not self._crosses(first, last, kept)
            ):
                continue
            taken[first : last + 1] = b"\1" * (last + 1 - first)
            kept.setdefault(first, set()).add(last)
            yield n

    def _crosses(self, first: int, last: int, kept: dict[int, set[int]]) -> bool:
        """Whether it overlaps one without that either lies in the other."""
        for start in range(first - self.width + 1, last + 1):
            for end in kept.get(start, ()):
                if start < first <= end < last or first < start <= last < end:
                    return True
        return False

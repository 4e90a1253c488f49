"""`extract`: logits of labels to labels with scores, of a text or an image as a whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.tasks.outputs import EXTRACT, Rows
from shoal.tasks.score import sigmoid

Floats = NDArray[np.float32]

#: Of labels that exclude each other, of labels each by itself, of a number that is no probability.
Activation = Literal["softmax", "sigmoid", "identity"]

_encode = msgspec.msgpack.Encoder().encode


def softmax(logits: NDArray[Any]) -> Floats:
    """Over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scores: Floats = (shifted / shifted.sum(axis=-1, keepdims=True)).astype(np.float32)
    return scores


class Labels(msgspec.Struct, frozen=True):
    """What is told of a classifier's logits.

    Attributes:
        names: by index.
        wanted: those that are told; None: all.
        threshold: least score of what is told.
    """

    names: tuple[str, ...]
    activation: Activation = "softmax"
    wanted: frozenset[str] | None = None
    threshold: float | None = None

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> bytes:
        """``{"labels": [{"label", "score"}]}``, the likeliest first."""
        logits = np.asarray(rows[0][EXTRACT]).reshape(len(self.names))
        match self.activation:
            case "softmax":
                scores = softmax(logits)
            case "sigmoid":
                scores = sigmoid(logits)
            case "identity":
                scores = logits.astype(np.float32)
        told = [
            pair for pair in zip(self.names, scores.tolist(), strict=True) if self._tells(*pair)
        ]
        return labelled(told)

    def _tells(self, name: str, score: float) -> bool:
        wanted = self.wanted is None or name in self.wanted
        return wanted and (self.threshold is None or score >= self.threshold)


class ZeroShot(msgspec.Struct, frozen=True):
    """What a model of entailment says of labels it never saw, a sequence each.

    Reference: transformers' ``ZeroShotClassificationPipeline``.

    Attributes:
        labels: in the order of their sequences.
        entailment, contradiction: columns of the model's logits.
        multi_label: each label by itself, against its contradiction; else they exclude each other.
    """

    labels: tuple[str, ...]
    entailment: int
    contradiction: int
    multi_label: bool = False
    threshold: float | None = None

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> bytes:
        """``{"labels": [{"label", "score"}]}``, the likeliest first."""
        logits = np.stack([np.asarray(row[EXTRACT]) for row in rows])
        if self.multi_label or len(self.labels) == 1:
            scores = softmax(logits[:, [self.contradiction, self.entailment]])[:, 1]
        else:
            scores = softmax(logits[:, self.entailment])
        return likely(self.labels, scores, self.threshold)


def likely(labels: tuple[str, ...], scores: Floats, least: float | None) -> bytes:
    """As `labelled`, of these labels with their scores [n] those that have `least` or more; None: all."""
    pairs = zip(labels, scores.tolist(), strict=True)
    return labelled([pair for pair in pairs if least is None or pair[1] >= least])


def entailment_of(names: tuple[str, ...]) -> tuple[int, int] | None:
    """Columns of entailment and contradiction, by their names; None where no name says so."""
    for index, name in enumerate(names):
        if name.lower().startswith("entail"):
            return index, len(names) - 1 if index == 0 else 0
    return None


def labelled(pairs: list[tuple[str, float]]) -> bytes:
    """Labels with scores as the answer of an item."""
    ordered = sorted(pairs, key=lambda pair: -pair[1])
    return _encode({"labels": [{"label": name, "score": score} for name, score in ordered]})

"""`extract`: labels of a caller's own for an image, by a model of texts and images. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from shoal.tasks.labels import likely, softmax
from shoal.tasks.outputs import EXTRACT, Rows
from shoal.tasks.score import sigmoid

#: transformers' own, of its pipeline for images.
TEMPLATE = "This is a photo of {label}."


class Matches(msgspec.Struct, frozen=True):
    """How well labels fit an image: the products of their rows are the model's own logits.

    Reference: transformers' ``ZeroShotImageClassificationPipeline``.

    Attributes:
        labels: in the order of their sequences, which are computed once for all images of a unit.
        multi_label: each label by itself; else they exclude each other.
    """

    labels: tuple[str, ...]
    multi_label: bool = False
    threshold: float | None = None

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> bytes:
        """``{"labels": [{"label", "score"}]}``, the likeliest first."""
        image, *texts = (np.asarray(row[EXTRACT]) for row in (*rows, *beside))
        logits = np.stack(texts) @ image
        scores = sigmoid(logits) if self.multi_label else softmax(logits)
        return likely(self.labels, scores, self.threshold)

"""The labels of a classifier, from its card or its own config.json, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from shoal.catalog.card import Card
from shoal.catalog.document import read_json
from shoal.catalog.tasks import ExtractTask
from shoal.errors import InvalidRequest, ModelLoadFailed
from shoal.spelling import nearest
from shoal.tasks.labels import Activation, Labels
from shoal.values import ExtractParams


class _Config(msgspec.Struct):
    """The keys of config.json that concern labels."""

    id2label: dict[int, str] = {}
    problem_type: str | None = None


class Classifier(msgspec.Struct, frozen=True):
    """What the head of an extractor gives.

    Attributes:
        names: by index.
        problem_type: as transformers has it, where config.json says.
    """

    task: ExtractTask
    names: tuple[str, ...]
    problem_type: str | None = None

    def wanted(self, params: ExtractParams, known: Iterable[str]) -> frozenset[str] | None:
        """The labels that a caller chose of these. Raises `InvalidRequest` for one that is none."""
        if params.labels is None:
            return None
        known = dict.fromkeys(known)
        for label in params.labels:
            if label not in known:
                raise InvalidRequest(
                    f"this model has no label '{label[:80]}'{nearest(label, known)}; it has "
                    f"{', '.join(known)}",
                    param="labels",
                )
        return frozenset(params.labels)

    def threshold(self, params: ExtractParams) -> float | None:
        """Least score of what is told."""
        return self.task.threshold if params.threshold is None else params.threshold

    def labels(self, params: ExtractParams) -> Labels:
        """How the logits of a text or an image as a whole are told. Raises `InvalidRequest`."""
        wanted, threshold = self.wanted(params, self.names), self.threshold(params)
        return Labels(self.names, self._activation(params), wanted, threshold)

    def _activation(self, params: ExtractParams) -> Activation:
        """As transformers' ``TextClassificationPipeline``, unless the card or the caller says."""
        if params.multi_label is not None:
            return "sigmoid" if params.multi_label else "softmax"
        if self.problem_type == "regression":
            return "identity"
        several = self.task.multi_label or self.problem_type == "multi_label_classification"
        return "sigmoid" if several or len(self.names) == 1 else "softmax"


def classifier_of(card: Card, task: ExtractTask, folder: Path) -> Classifier:
    """Raises `ModelLoadFailed` where neither the card nor config.json names the labels."""
    path = folder / "config.json"
    config = read_json(path, _Config, _Config(), strict=False)
    names = tuple(task.labels or (config.id2label[i] for i in sorted(config.id2label)))
    if not names:
        raise ModelLoadFailed(
            f"card '{card.name}' names no labels of `extract`, and {path} has no id2label; "
            "list them under `labels`, by index"
        )
    return Classifier(task, names, config.problem_type)

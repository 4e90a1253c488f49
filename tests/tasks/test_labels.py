"""What is told of classifiers equals transformers' pipelines on the same logits."""

from typing import Any

import msgspec
import numpy as np
import pytest

from shoal.tasks.labels import Activation, Labels, ZeroShot, entailment_of, softmax

LOGITS = np.array([1.5, -0.5, 3.0], np.float32)
NAMES = ("low", "none", "high")


def told(answer: bytes) -> list[tuple[str, float]]:
    labels: list[dict[str, Any]] = msgspec.msgpack.decode(answer)["labels"]
    return [(label["label"], label["score"]) for label in labels]


def test_softmax_does_not_overflow() -> None:
    scores = softmax(np.array([[1e4, 0.0], [-1e4, -1e4]], np.float32))
    assert scores.tolist() == [[1.0, 0.0], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("softmax", {"high": 0.7979, "low": 0.1780, "none": 0.0241}),
        ("sigmoid", {"high": 0.9526, "low": 0.8176, "none": 0.3775}),
        ("identity", {"high": 3.0, "low": 1.5, "none": -0.5}),
    ],
)
def test_labels_are_told_by_score(activation: Activation, expected: dict[str, float]) -> None:
    found = told(Labels(NAMES, activation)([{"extract": LOGITS}]))
    assert [name for name, _ in found] == list(expected)
    assert [score for _, score in found] == pytest.approx(list(expected.values()), abs=1e-4)


def test_a_choice_and_a_threshold() -> None:
    rows = [{"extract": LOGITS}]
    chosen = told(Labels(NAMES, wanted=frozenset({"low", "none"}))(rows))
    assert [name for name, _ in chosen] == ["low", "none"]
    assert [name for name, _ in told(Labels(NAMES, threshold=0.1)(rows))] == ["high", "low"]
    assert told(Labels(NAMES, threshold=0.9)(rows)) == []


def test_another_number_of_logits_is_no_answer() -> None:
    with pytest.raises(ValueError, match="reshape"):
        Labels(NAMES[:2])([{"extract": LOGITS}])


ENTAILED = np.array([[2.0, 0.0, -1.0], [-1.0, 0.0, 2.5]], np.float32)  # contradiction … entailment


def reference(
    labels: list[str], *, multi_label: bool, id2label: dict[int, str]
) -> dict[str, float]:
    import torch
    from transformers import BertConfig
    from transformers.pipelines.zero_shot_classification import ZeroShotClassificationPipeline

    pipeline: Any = ZeroShotClassificationPipeline.__new__(ZeroShotClassificationPipeline)
    label2id = {name: index for index, name in id2label.items()}

    class Model:
        config = BertConfig(id2label=id2label, label2id=label2id)

    pipeline.model = Model()
    outputs = [
        {"candidate_label": label, "sequence": "text", "logits": torch.tensor(ENTAILED[i : i + 1])}
        for i, label in enumerate(labels)
    ]
    found = pipeline.postprocess(outputs, multi_label=multi_label)
    return dict(zip(found["labels"], found["scores"], strict=True))


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize(
    "names",
    [
        ("contradiction", "neutral", "entailment"),
        ("ENTAILMENT", "NEUTRAL", "CONTRADICTION"),
    ],
)
@pytest.mark.parametrize("labels", [["fish", "bird"], ["bird"]])
def test_zero_shot_equals_the_reference(
    labels: list[str], names: tuple[str, ...], multi_label: bool
) -> None:
    columns = entailment_of(names)
    assert columns is not None
    rows = [{"extract": row} for row in ENTAILED[: len(labels)]]
    found = told(ZeroShot(tuple(labels), *columns, multi_label)(rows))
    expected = reference(labels, multi_label=multi_label, id2label=dict(enumerate(names)))
    assert [name for name, _ in found] == list(expected)
    assert dict(found) == pytest.approx(expected, rel=1e-6)


def test_which_label_is_entailment() -> None:
    assert entailment_of(("not_entailment", "entailment")) == (1, 0)
    assert entailment_of(("entailment", "not_entailment")) == (0, 1)
    assert entailment_of(("LABEL_0", "LABEL_1")) is None

"""The heads of texts as the tests see them: columns of the table in docs/models.md.

A cell says which class of the reference library computes a head, what is made of its output, and
how far ours may be off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from sentence_transformers.base.modules import Dense

from tests.runtimes.torch.families.row import Kind

Floats = NDArray[np.float32]

#: A term that weighs less is noise around zero: it may be there or not.
LEAST_WEIGHT = 1e-4


@dataclass(frozen=True)
class Measure:
    """`error` of an answer against the reference's; infinity where they differ in kind."""

    name: str
    tolerance: float
    error: Callable[[Floats, Floats], float]


#: The output of the reference's class for one item, and the item's tokens -> what a head says.
Answer = Callable[[Any, list[int]], torch.Tensor]


@dataclass(frozen=True)
class Cell:
    """One way of computing a head.

    Attributes:
        kind: the class of the reference.
        prepare: adds to the folder what the class does not save, given the class's config, and
            tells how the reference answers.
        options: of the head.
        config: changes to the reference's config.
    """

    kind: Kind
    measure: Measure
    prepare: Callable[[Path, Any], Answer]
    options: dict[str, Any]
    config: dict[str, Any]


def _cosine_error(ours: Floats, reference: Floats) -> float:
    if ours.shape != reference.shape:
        return float("inf")
    left, right = (np.atleast_2d(rows).astype(np.float64) for rows in (ours, reference))
    lengths = np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1)
    if not np.allclose(*lengths, rtol=1e-3):
        return float("inf")
    return float(1 - ((left * right).sum(1) / (lengths[0] * lengths[1])).min())


def _label_error(ours: Floats, reference: Floats) -> float:
    if ours.shape != reference.shape or (ours.argmax(-1) != reference.argmax(-1)).any():
        return float("inf")
    return float(np.abs(ours - reference).max() / max(1.0, np.abs(reference).max()))


def _term_error(ours: Floats, reference: Floats) -> float:
    if ((ours > LEAST_WEIGHT) & (reference <= 0)).any() or (
        (reference > LEAST_WEIGHT) & (ours <= 0)
    ).any():
        return float("inf")
    return float(np.abs(ours - reference).max())


def _id_error(ours: Floats, reference: Floats) -> float:
    return 0.0 if ours.tolist() == reference.tolist() else float("inf")


COSINE = Measure("1 − cosine, lengths equal", 1e-4, _cosine_error)
LABELS = Measure("logits, labels equal", 1e-3, _label_error)
TERMS = Measure("weights, terms equal", 1e-3, _term_error)
IDS = Measure("token ids equal", 0.0, _id_error)

_POOL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mean": lambda hidden: hidden.mean(0),
    "cls": lambda hidden: hidden[0],
    "last": lambda hidden: hidden[-1],
    "max": lambda hidden: hidden.amax(0),
}


def _pooled(pooling: str) -> Cell:
    def answer(output: Any, _: list[int]) -> torch.Tensor:
        hidden: torch.Tensor = output.last_hidden_state[0]
        return _POOL[pooling](hidden)

    return Cell("encoder", COSINE, lambda *_: answer, {"pooling": pooling}, {})


def _projected() -> Cell:
    def prepare(folder: Path, config: Any) -> Answer:
        dense = [Dense(config.hidden_size, 48), Dense(48, 24, False, torch.nn.Identity())]
        for number, module in enumerate(dense, 2):
            (folder / f"{number}_Dense").mkdir()
            module.save(str(folder / f"{number}_Dense"))

        def answer(output: Any, _: list[int]) -> torch.Tensor:
            features = {"sentence_embedding": output.last_hidden_state[0].mean(0)}
            for module in dense:
                features = module(features)
            row: torch.Tensor = features["sentence_embedding"]
            return row

        return answer

    return Cell("encoder", COSINE, prepare, {"projections": ["2_Dense", "3_Dense"]}, {})


def _splade(**options: str) -> Cell:
    def answer(output: Any, _: list[int]) -> torch.Tensor:
        weights = torch.log1p(torch.relu(output.logits[0]))
        if options:
            weights = torch.log1p(weights)
        return weights.amax(0)

    return Cell("masked-lm", TERMS, lambda *_: answer, options, {})


def _lexical() -> Cell:
    """As `FlagEmbedding` computes it, written out."""
    skip = 17

    def prepare(folder: Path, config: Any) -> Answer:
        unit = added(folder, "sparse_linear", config.hidden_size, 1)

        def answer(output: Any, tokens: list[int]) -> torch.Tensor:
            weights = torch.relu(unit(output.last_hidden_state[0]))[:, 0]
            row = torch.zeros(config.vocab_size)
            for token, weight in zip(tokens, weights, strict=True):
                row[token] = torch.maximum(row[token], weight)
            row[skip] = 0
            return row

        return answer

    return Cell("encoder", TERMS, prepare, {"skip": [skip]}, {})


def _colbert() -> Cell:
    def prepare(folder: Path, config: Any) -> Answer:
        project = added(folder, "linear", config.hidden_size, 12, bias=False)

        def answer(output: Any, _: list[int]) -> torch.Tensor:
            rows = project(output.last_hidden_state[0])
            return torch.nn.functional.normalize(rows, dim=1)

        return answer

    return Cell("encoder", COSINE, prepare, {}, {})


def _logits(kind: Kind, labels: int) -> Cell:
    def answer(output: Any, _: list[int]) -> torch.Tensor:
        logits: torch.Tensor = output.logits[0]
        return logits

    return Cell(kind, LABELS, lambda *_: answer, {}, {"num_labels": labels})


def _yes_no() -> Cell:
    """As `sentence_transformers` computes it (LogitScore)."""
    yes, no = 40, 71

    def answer(output: Any, _: list[int]) -> torch.Tensor:
        logits: torch.Tensor = output.logits[0, -1]
        return (logits[yes] - logits[no])[None]

    return Cell("generator", LABELS, lambda *_: answer, {"yes": yes, "no": no}, {})


def added(folder: Path, name: str, into: int, out: int, bias: bool = True) -> torch.nn.Linear:
    """A linear layer whose tensors lie in the model's own file."""
    path = folder / "model.safetensors"
    linear = torch.nn.Linear(into, out, bias)
    added = {f"{name}.{part}": tensor.data for part, tensor in linear.named_parameters()}
    save_file(load_file(path) | added, path)
    return linear


#: Head -> the ways of computing it; a family has the head where the reference has the class.
HEADS: dict[str, list[Cell]] = {
    "dense": [*map(_pooled, _POOL), _projected()],
    "splade": [_splade(), _splade(activation="log1p_relu")],
    "lexical": [_lexical()],
    "colbert": [_colbert()],
    "cross-encoder": [_logits("sequence", 1)],
    "sequence-labels": [_logits("sequence", 5)],
    "token-labels": [_logits("tokens", 5)],
    "yes-no": [_yes_no()],
}

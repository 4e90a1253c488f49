"""Tiny GLiNERs in the folders that their own library saves, and what they compute, written out.

`tests/ecosystem/test_gliner.py` holds both against that library itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch.nn.functional import linear, relu

from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import ExtractTask, Tasks
from tests.runtimes.torch import card_tokenizers
from tests.runtimes.torch.families.rows import ROWS

#: Keys of gliner_config.json.
SHAPE: dict[str, Any] = {"hidden_size": 24, "max_width": 4, "max_len": 384, "num_rnn_layers": 1}

Tensors = dict[str, torch.Tensor]


def wrap(folder: Path, **changes: Any) -> None:
    """Makes a GLiNER of the encoder that was saved in `folder`, with random weights around it."""
    config = SHAPE | changes
    path = folder / "config.json"
    encoder = json.loads(path.read_text())
    path.unlink()
    (folder / "gliner_config.json").write_text(json.dumps(config | {"encoder_config": encoder}))
    weights = folder / "model.safetensors"
    inside = {f"token_rep_layer.bert_layer.model.{n}": t for n, t in load_file(weights).items()}
    width = encoder.get("hidden_size") or encoder.get("dim") or encoder["d_model"]
    save_file(inside | _around(width, config), weights)


def _around(encoder: int, config: dict[str, Any]) -> Tensors:
    rng = np.random.default_rng(7)
    width = config["hidden_size"]
    shapes: dict[str, tuple[int, ...]] = {}

    def layer(name: str, into: int, out: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (out, into), (out,)

    if encoder != width:
        layer("token_rep_layer.projection", encoder, width)
    for number in range(config["num_rnn_layers"]):
        for direction in ("", "_reverse"):
            for kind, into in (("ih", width), ("hh", width // 2)):
                at = f"rnn.lstm.{{}}_{kind}_l{number}{direction}"
                shapes[at.format("weight")] = (2 * width, into)
                shapes[at.format("bias")] = (2 * width,)
    deep = config.get("span_mode", "markerV0") == "markerV0"
    for name in ("project_start", "project_end", "out_project" if deep else ""):
        if name:
            into = 2 * width if name == "out_project" else width
            wide = 4 * width if deep else 2 * width
            layer(f"span_rep_layer.span_rep_layer.{name}.0", into, wide)
            layer(f"span_rep_layer.span_rep_layer.{name}.3", wide, width)
    if not deep:
        layer("span_rep_layer.span_rep_layer.out_project", 2 * width, width)
    layer("prompt_rep_layer.0", width, 4 * width)
    layer("prompt_rep_layer.3", 4 * width, width)
    return {
        name: torch.from_numpy((1.6 * rng.normal(size=shape) / shape[-1] ** 0.5).astype(np.float32))
        for name, shape in sorted(shapes.items())
    }


class Written:
    """The reference's computation span by span, of one item."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "gliner_config.json").read_text())
        self._tensors = load_file(folder / "model.safetensors")
        self._lstm: torch.nn.LSTM | None = None
        if layers := self.config["num_rnn_layers"]:
            width = self.config["hidden_size"]
            self._lstm = torch.nn.LSTM(
                width, width // 2, layers, bidirectional=True, batch_first=True
            )
            prefix = "rnn.lstm."
            own = {n.removeprefix(prefix): t for n, t in self._tensors.items() if prefix in n}
            self._lstm.load_state_dict(own)

    def logits(self, hidden: torch.Tensor, marks: NDArray[np.uint8]) -> torch.Tensor:
        """hidden: [tokens, width]. [spans, labels], spans by length, then by first word."""
        if "token_rep_layer.projection.weight" in self._tensors:
            hidden = self._layer("token_rep_layer.projection", hidden)
        words, labels = (hidden[torch.from_numpy(marks == mark)] for mark in (1, 2))
        if self._lstm is not None and len(words):
            words = self._lstm(words[None])[0][0]
        labels = self._mlp("prompt_rep_layer", labels)
        rows = [
            self._span(words[first], words[first + wider]) @ labels.T
            for wider in range(self.config["max_width"])
            for first in range(len(words) - wider)
        ]
        return torch.stack(rows) if rows else torch.zeros(0, len(labels))

    def _span(self, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        at = "span_rep_layer.span_rep_layer"
        ends = [
            self._mlp(f"{at}.project_start", first),
            self._mlp(f"{at}.project_end", last),
        ]
        both = relu(torch.cat(ends))
        if f"{at}.out_project.weight" in self._tensors:
            return self._layer(f"{at}.out_project", both)
        return self._mlp(f"{at}.out_project", both)

    def _mlp(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return self._layer(f"{name}.3", relu(self._layer(f"{name}.0", rows)))

    def _layer(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return linear(rows, self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"])


def save(folder: Path, family: str) -> Card:
    """A tiny GLiNER with an encoder of this family, and its card."""
    card = Card(family, Source(dir=str(folder)), family, Tasks(extract=ExtractTask("spans")), 256)
    tokenizer = card_tokenizers.tokenizer_of(card)
    vocabulary = {"vocab_size": len(tokenizer), "max_position_embeddings": 258}
    ROWS[family].make("encoder", folder, **vocabulary)
    tokenizer.save_pretrained(folder)
    wrap(folder)
    return card


#: What those are asked: of each text with each of the options, what is recorded in `GOLDEN`.
FAMILIES = ("deberta", "modernbert", "roberta")
TEXTS = [
    "Ada Lovelace, born 10-12-1815 in London.",
    "M\u00fcller & S\u00f6hne GmbH (Stra\u00dfe 7), un_known \U0001f600 word",
    "Fish.",
]
LABELS = ["person", "place of birth", "firm"]
OPTIONS: dict[str, dict[str, Any]] = {
    "flat": {"threshold": 0.1},
    "nested": {"threshold": 0.5, "nested": True},
    "several": {"threshold": 0.5, "multi_label": True},
}
#: Written by ``python tests/ecosystem/test_gliner.py``, with gliner itself.
GOLDEN = Path(__file__).parent / "gliner_golden.json"


def same(ours: list[Any], theirs: list[Any]) -> None:
    """Entities of texts, equal but for the last digits of their scores."""
    for found, expected in zip(ours, theirs, strict=True):
        told = found if isinstance(found, list) else msgspec.to_builtins(found.entities)
        assert [without_score(e) for e in told] == [without_score(e) for e in expected]
        np.testing.assert_allclose(
            [e["score"] for e in told], [e["score"] for e in expected], atol=1e-5
        )


def without_score(entity: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entity.items() if key != "score"}

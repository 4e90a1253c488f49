"""How well each span of words fits each label of a text's own prompt (Zaratiana et al., GLiNER, 2023).

`Run.marks` says which tokens stand for words and labels. The reference's last product but one, over
first and last word of a span side by side, is a sum of two products, each of one word; and the last
one before the labels is taken into them. So a span costs an addition and a product with each label,
not two products of its own. Reference: `gliner.modeling.base.UniEncoderSpanModel`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence, unpack_sequence

from shoal.catalog.gliner import FILE, GlinerConfig
from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.configs import read_config
from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput
from shoal.runtimes.torch.heads.layout import Linear, Steps
from shoal.runtimes.torch.heads.steps import Stack
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import linear
from shoal.runtimes.torch.packed import Packed

#: Marks of tokens.
_WORD, _LABEL = 1, 2
_PROJECTION = "token_rep_layer.projection"
_SPAN = "span_rep_layer.span_rep_layer"


class _Marked(NamedTuple):
    """Words or labels of a pass: their rows, end to end, and how many each item has."""

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]


class _Terms(NamedTuple):
    """Of each word as the first and as the last of a span [words, wide]; of each label [labels, wide]
    and [labels]. A logit is (first + last) query + shift."""

    first: Tensor
    last: Tensor
    query: Tensor
    shift: Tensor


def spans(_: dict[str, Any], ground: Ground) -> Head:
    """Ragged rows: of each item [spans * labels], spans by length, then by first word."""
    layers = ground.layers
    config = read_config(layers.folder / FILE, GlinerConfig)
    model = _Spans(config, ground)

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        words, labels = (_marked(packed, mark) for mark in (_WORD, _LABEL))
        rows = model.scores(hidden, words, labels, packed)
        return HeadOutput(rows.float(), torch.from_numpy(model.sizes(words, labels)))

    return Head(compute, bytes_per_token=model.bytes_per_token)


def _marked(packed: Packed, mark: int) -> _Marked:
    if packed.marks is None:
        none = np.zeros(0, np.int64)
        return _Marked(none, np.zeros(len(packed.rows), np.int64))
    rows = np.flatnonzero(packed.marks == mark)
    starts = [start for g in packed.groups for start in range(g.start, g.stop, g.length)]
    return _Marked(rows, np.diff(np.searchsorted(rows, [*starts, packed.used])))


class _Spans:
    def __init__(self, config: GlinerConfig, ground: Ground) -> None:
        """Raises `ModelLoadFailed` naming a tensor that is missing or does not fit."""
        layers, width = ground.layers, config.hidden_size
        narrow: Steps = () if width == ground.width else (Linear(_PROJECTION),)
        self._project = Stack(narrow, layers, ground.width)
        if self._project.width != width:
            raise ModelLoadFailed(f"hidden_size is {width}, but rows are {self._project.width}")
        self._context = _Context(config.num_rnn_layers, width, layers)
        self._label = Stack(_mlp("prompt_rep_layer"), layers, width)
        self._ends = [
            Stack(_mlp(f"{_SPAN}.{end}", last="relu"), layers, width)
            for end in ("project_start", "project_end")
        ]
        self._most = config.max_width
        self._deep = config.span_mode == "markerV0"
        out = f"{_SPAN}.out_project.0" if self._deep else f"{_SPAN}.out_project"
        wide, _ = layers.expect(f"{out}.weight", None, 2 * width)
        both = layers.factor(f"{out}.weight")
        self._first = linear(both[:, :width].contiguous(), layers.factor(f"{out}.bias"))
        self._last = linear(both[:, width:].contiguous(), None)
        # After these comes a product [width, wide] and then one with each label: (h W^T + b) q.
        self._after: tuple[Tensor, Tensor] | None = None
        if self._deep:
            layers.expect(f"{_SPAN}.out_project.3.weight", width, wide)
            self._after = (
                layers.factor(f"{_SPAN}.out_project.3.weight"),
                layers.factor(f"{_SPAN}.out_project.3.bias"),
            )
        # Both ends of a span, their sum, and what the projections of a word need on their way.
        widest = max(stack.bytes_per_row for stack in (*self._ends, self._label))
        self.bytes_per_token = 4 * 3 * wide + widest + 4 * 8 * width

    def scores(self, hidden: Tensor, words: _Marked, labels: _Marked, packed: Packed) -> Tensor:
        """[sum of sizes], the logits of all items."""
        if not (len(words.rows) and len(labels.rows)):
            return hidden.new_zeros(0)
        within = self._context(self._project(hidden[_on(words.rows, hidden)]), words.counts)
        first, last = self._first(self._ends[0](within)), self._last(self._ends[1](within))
        query = self._label(self._project(hidden[_on(labels.rows, hidden)]))
        shift = query.new_zeros(len(query))
        if self._after is not None:
            weight, bias = self._after
            query, shift = query @ weight, query @ bias
        terms, item, parts = _Terms(first, last, query, shift), 0, []
        for group in packed.groups:
            of = slice(item, item + group.items)
            item += group.items
            parts.append(self._group(terms, words.counts, labels.counts, of))
        return torch.cat(parts)

    def _group(
        self, terms: _Terms, words: NDArray[np.int64], labels: NDArray[np.int64], of: slice
    ) -> Tensor:
        """Those of neighbours of one length: nearly as many words each, and mostly as many labels."""
        (at_word, _), (at_label, is_label) = _padded(words, of), _padded(labels, of)
        most, widths = at_word.shape[1], min(self._most, at_word.shape[1])
        if not (most and at_label.shape[1]):
            return terms.first.new_zeros(0)
        place, label = (_on(at, terms.first) for at in (at_word, at_label))
        first, last = terms.first[place], terms.last[place]
        query = terms.query[label].transpose(1, 2)
        said = terms.shift.new_zeros(len(at_word), widths, most, at_label.shape[1])
        for wider in range(widths):
            both = first[:, : most - wider] + last[:, wider:]
            rows = torch.relu_(both) if self._deep else both
            said[:, wider, : most - wider] = rows @ query
        said += terms.shift[label][:, None, None, :]
        ends = np.arange(widths)[:, None] + np.arange(most)
        fits = ends[None] < words[of, None, None]
        return said[_on(fits[..., None] & is_label[:, None, None, :], said)]

    def sizes(self, words: _Marked, labels: _Marked) -> NDArray[np.int64]:
        """How many logits each item has."""
        widest = np.minimum(words.counts, self._most)
        found: NDArray[np.int64] = widest * words.counts - widest * (widest - 1) // 2
        return found * labels.counts


def _padded(counts: NDArray[np.int64], of: slice) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """[items, most]: where each one's rows lie, all rows being end to end; and which are there."""
    starts, own = (np.cumsum(counts) - counts)[of], counts[of]
    place = np.arange(own.max(initial=0))
    there = place < own[:, None]
    return np.where(there, starts[:, None] + place, 0), there


def _on(array: NDArray[Any], like: Tensor) -> Tensor:
    return torch.from_numpy(array).to(like.device)


def _mlp(name: str, last: Any = None) -> Steps:
    """Two layers; between them stand an activation and a dropout, which count in the names."""
    return Linear(f"{name}.0", "relu"), Linear(f"{name}.3", last)


class _Context:
    """Words that know their neighbours: an LSTM of both directions, where the model has one."""

    def __init__(self, count: int, width: int, layers: Layers) -> None:
        self._lstm: torch.nn.LSTM | None = None
        if count < 1:
            return
        with torch.device("meta"):
            lstm = torch.nn.LSTM(width, width // 2, count, bidirectional=True)
        given = {}
        for name, parameter in lstm.named_parameters():
            layers.expect(f"rnn.lstm.{name}", *parameter.shape)
            given[name] = layers.tensor(f"rnn.lstm.{name}")
        lstm.load_state_dict(given, assign=True)
        lstm.requires_grad_(False).flatten_parameters()
        self._lstm, self._dtype = lstm.eval(), layers.stream_dtype

    def __call__(self, rows: Tensor, counts: NDArray[np.int64]) -> Tensor:
        """[words, width] of items of so many words each."""
        if self._lstm is None:
            return rows
        there: list[int] = counts[counts > 0].tolist()
        texts = torch.split(rows.to(self._dtype), there)
        sequences = pack_sequence(list(texts), enforce_sorted=False)
        said: PackedSequence = self._lstm(sequences)[0]
        return torch.cat(unpack_sequence(said))

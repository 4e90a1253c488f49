"""One resident encoder: batches of tokens through its graph, and its heads.

Items of like lengths are computed together. A graph of ours computes padding in attention alone; one
that another library exported computes all of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import ErrorInfo, InvalidItem, ModelLoadFailed, SourceError
from shoal.runtimes.batch import Batch, Outputs
from shoal.runtimes.onnx.encoders.heads import Floats, Head, Value, heads_of
from shoal.runtimes.onnx.export.architecture import Architecture, architecture
from shoal.runtimes.onnx.export.encoder import INPUTS
from shoal.runtimes.onnx.export.graph import GRAPH
from shoal.runtimes.onnx.session import Session
from shoal.runtimes.passes import passes, restored
from shoal.spelling import nearest
from shoal.wire.outputs import Output
from shoal.wire.socket import Load

#: Tokens of one pass: they bound its activations. Of 192 to 2,048, MiniLM measures best here: lengths
#: of 18 to 146 take 1.5 times as long with 2,048 (1.9 times in 8 bits), for their padding in attention.
PASS_TOKENS = 384

#: What others call what a graph gives, and what of it that is by the dimensions it has.
_FOREIGN: dict[tuple[str, int], Value] = {
    ("last_hidden_state", 3): "hidden",
    ("token_embeddings", 3): "hidden",
    ("logits", 3): "tokens",
    ("logits", 2): "sequence",
}


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    """`weights` chose the folder that is loaded; the runtime needs to know no more of it."""

    weights: str = "float32"


class EncoderModel:
    """A loaded model.

    Attributes:
        bytes: of its weights, and of the activations of its largest pass.
    """

    def __init__(self, load: Load, threads: int) -> None:
        """Raises `ModelLoadFailed` naming the file, the head or the option that is wrong."""
        folder = Path(load.path)
        _check(load, folder)
        self._name, self._max_tokens = load.model, load.max_tokens
        self._of = _architecture(folder, load.family)
        if not 0 < load.max_tokens <= self._of.max_tokens:
            raise ModelLoadFailed(
                f"max_tokens is {load.max_tokens}, but the model's positions allow 1 to "
                f"{self._of.max_tokens}"
            )
        self._heads = heads_of(load.heads)
        self._session = Session(folder / GRAPH, threads, arena=True)
        self._values, self._padded = self._found(folder)
        self.bytes = sum(path.stat().st_size for path in folder.glob(f"{GRAPH}*"))
        self.bytes += max(PASS_TOKENS, load.max_tokens) * self._bytes_per_token(load.max_tokens)

    def warm_up(self) -> None:
        """One short pass: what is laid out at first use is laid out."""
        one = Batch(np.zeros(1, np.int32), np.ones(1, np.int64))
        self.run(one, list(self._heads))

    def run(self, batch: Batch, names: list[str]) -> Outputs:
        """The outputs of these names; what is wrong with one item never touches its neighbours."""
        failed = self._unfit(batch)
        items = len(batch.lengths)
        fit = np.array([item for item in range(items) if item not in failed], np.int64)
        ordered = fit[np.argsort(batch.lengths[fit], kind="stable")]
        heads = {name: self._heads[name] for name in names}
        said: dict[str, list[Output]] = {name: [] for name in heads}
        order, computed = list(passes(ordered, batch.lengths, PASS_TOKENS)), 0
        for rows in order:
            values = self._pass(batch, rows, heads)
            lengths = batch.lengths[rows]
            for name, head in heads.items():
                said[name].append(head.compute(values[head.value], lengths))
            computed += int(lengths[-1]) * len(rows) if self._padded else int(lengths.sum())
        outputs = {name: restored(parts, order, items) for name, parts in said.items()}
        return Outputs(outputs, computed, failed)

    def _pass(
        self, batch: Batch, rows: NDArray[np.int64], heads: dict[str, Head]
    ) -> dict[Value, Floats]:
        """What the graph gives of some items, shortest first: of every token, without padding."""
        lengths = batch.lengths[rows]
        feeds, mask = self._feeds(batch, rows, lengths)
        wanted = sorted({head.value for head in heads.values()})
        named = list(dict.fromkeys(self._values[value] for value in wanted))
        given = dict(zip(named, self._session.run(named, feeds), strict=True))
        return {value: _taken(given[self._values[value]], value, mask) for value in wanted}

    def _feeds(
        self, batch: Batch, rows: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """Inputs [items, longest], and where in them tokens are."""
        columns = np.arange(lengths[-1])
        mask = columns < lengths[:, None]
        starts = (np.cumsum(batch.lengths) - batch.lengths)[rows]
        ids = np.full(mask.shape, self._of.padding or 0, np.int64)
        ids[mask] = batch.tokens[(starts[:, None] + columns)[mask]]
        types = np.zeros(mask.shape, np.int64)
        if batch.splits is not None and self._of.types:
            splits = batch.splits[rows]
            types = ((columns >= splits[:, None]) & (splits > 0)[:, None] & mask).astype(np.int64)
        feeds = dict(zip(INPUTS, (ids, mask.astype(np.int64), types), strict=True))
        return {name: feeds[name] for name in self._session.inputs}, mask

    def _found(self, folder: Path) -> tuple[dict[Value, str], bool]:
        """By what heads need, the graph's output; and whether those are of padded rows."""
        strange = [name for name in self._session.inputs if name not in INPUTS]
        if strange:
            raise ModelLoadFailed(
                f"{folder / GRAPH} has an input '{strange[0]}'; known are {INPUTS}"
            )
        needed = {head.value for head in self._heads.values()}
        outputs = self._session.outputs
        own: dict[Value, str] = {value: value for value in needed if outputs.get(value) == 2}
        if own.keys() == needed:
            return own, False
        foreign = {_FOREIGN[key]: key[0] for key in outputs.items() if key in _FOREIGN}
        if "hidden" in foreign:
            foreign["first"] = foreign["hidden"]
        if lacking := sorted(needed - foreign.keys()):
            raise ModelLoadFailed(
                f"{folder / GRAPH} gives {', '.join(outputs)} and no '{lacking[0]}', which the "
                f"card's heads need; {_HOW}"
            )
        return foreign, True

    def _unfit(self, batch: Batch) -> dict[int, ErrorInfo]:
        failed = batch.unfit(self._name, self._max_tokens, self._of.words)
        for item in np.flatnonzero(batch.lengths == 0).tolist():
            failed[item] = InvalidItem("this item has no tokens").info
        return failed

    def _bytes_per_token(self, longest: int) -> int:
        """Peak of a pass: rows of each product and their copies side by side; scores of attention."""
        return 4 * (_ROWS * self._of.hidden + self._of.heads * longest)


_HOW = "`shoal models export MODEL --to onnx` makes the graph of a model's safetensors"

#: Rows as wide as a hidden state that a token takes at the peak: of MiniLM and a reranker of 12 layers, in
#: float32 and 8 bits, 384 tokens were measured at 16 to 20 of them besides the scores of attention.
_ROWS = 20


def _check(load: Load, folder: Path) -> None:
    try:
        msgspec.convert(load.options, _Options)
    except msgspec.ValidationError as error:
        raise ModelLoadFailed(f"options of the onnx runtime: {error}") from None
    if load.dtype not in ("auto", "float32"):
        raise ModelLoadFailed(
            f"dtype is {load.dtype}, and graphs compute in float32 or, by the option `weights`, "
            f"in int8{nearest(load.dtype, ('float32',))}"
        )
    if not (folder / GRAPH).is_file():
        raise ModelLoadFailed(f"{folder} has no {GRAPH}; {_HOW}")


def _architecture(folder: Path, family: str) -> Architecture:
    try:
        return architecture(folder, family)
    except SourceError as error:
        raise ModelLoadFailed(error.message) from None


def _taken(given: NDArray[Any], value: Value, mask: NDArray[np.bool_]) -> Floats:
    """Of padded rows those that are tokens; `first` is the first of each item."""
    if given.ndim < 3:
        return np.asarray(given, np.float32)
    return np.asarray(given[:, 0] if value == "first" else given[mask], np.float32)

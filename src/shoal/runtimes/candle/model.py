"""One resident model: a folder that the library has read, and how a batch runs through it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from shoal.catalog import safetensors
from shoal.errors import ComputeFailed, InvalidItem, InvalidRequest, ModelLoadFailed
from shoal.runtimes.batch import Batch, Outputs
from shoal.runtimes.candle import configs, folder, library
from shoal.runtimes.candle.head import dense
from shoal.runtimes.candle.passes import activation_bytes, passes
from shoal.runtimes.candle.spelling import spelled
from shoal.wire.outputs import Output
from shoal.wire.socket import Load


class Model:
    """A loaded model.

    Attributes:
        bytes: of its tensors, and of the activations of its largest pass.
    """

    def __init__(self, load: Load) -> None:
        """Reads the weights. Raises `ModelLoadFailed` with the reason, `OutOfMemory`."""
        head = dense(load.heads)
        if load.dtype not in ("auto", "float32"):
            raise ModelLoadFailed(
                f"the candle runtime computes in float32, not in {load.dtype}; use auto or float32"
            )
        path = Path(load.path)
        keys, config = configs.read(path, load.family)
        with tempfile.TemporaryDirectory(prefix="shoal-candle-") as made:
            folder.make(Path(made), path, config, keys, head)
            with library.as_ours(ModelLoadFailed, load.path):
                self._library = library.open_folder(Path(made), load.max_tokens)
        if self._library.max_length != load.max_tokens:
            raise ModelLoadFailed(
                f"max_tokens is {load.max_tokens}, but the model's positions allow 1 to "
                f"{self._library.max_length}"
            )
        self._name, self._max_tokens, self._vocabulary = (
            load.model,
            load.max_tokens,
            keys.vocab_size,
        )
        self.bytes = _tensor_bytes(path) + activation_bytes(keys.widths, load.max_tokens)

    def warm_up(self) -> None:
        """A pass of one token, so that the first request does not pay for first uses.

        Raises `ModelLoadFailed`: shapes that do not go together are found out when they meet.
        """
        try:
            self.run(Batch(np.zeros(1, np.int32), np.ones(1, np.int64)), ["dense"])
        except ComputeFailed as error:
            raise ModelLoadFailed(error.message) from None

    def run(self, batch: Batch, names: list[str]) -> Outputs:
        """The vectors under these names. Raises `InvalidRequest`, `ComputeFailed`, `OutOfMemory`."""
        if batch.splits is not None and batch.splits.any():
            raise InvalidRequest(f"'{self._name}' reads no pairs in the candle runtime")
        failed = batch.unfit(self._name, self._max_tokens, self._vocabulary)
        for item in np.flatnonzero(batch.lengths == 0).tolist():
            failed[item] = InvalidItem("this item has no tokens").info
        items = len(batch.lengths)
        fit = np.array([item for item in range(items) if item not in failed], np.int64)
        ends = np.cumsum(batch.lengths)
        rows = np.zeros((items, self._library.dim), np.float32)
        computed = 0
        for one in passes(batch.lengths, fit):
            texts = [spelled(batch.tokens[ends[i] - batch.lengths[i] : ends[i]]) for i in one]
            with library.as_ours(ComputeFailed, self._name):
                rows[one] = self._library.embed(texts, batch_size=len(texts))
            computed += len(one) * int(batch.lengths[one[0]])
        return Outputs(dict.fromkeys(names, Output(rows)), computed, failed)


def _tensor_bytes(folder: Path) -> int:
    """In float32, whatever they are stored in."""
    return sum(safetensors.tensor_bytes(path, 4) for path in folder.glob("*.safetensors"))

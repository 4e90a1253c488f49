"""One resident model: a family's encoder, its heads, and how a batch runs through them.

Decides which items can be computed at all and in how many passes; knows nothing of other models
and no message but `Load`.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from shoal.errors import ErrorInfo, InvalidItem, InvalidRequest
from shoal.runtimes.batch import Batch, Media, Outputs
from shoal.runtimes.torch.generating.generator import Generator
from shoal.runtimes.torch.heads.base import HeadOutput
from shoal.runtimes.torch.loading import load_parts
from shoal.runtimes.torch.media import Takes, among_tokens, pack_media
from shoal.runtimes.torch.packed import Packed, filled, pack
from shoal.runtimes.torch.restoring import restored
from shoal.wire.socket import Load

#: Tokens of one pass: they bound its activations. On CPU 512 to 2,048 measure alike on mixed
#: lengths, 256 and 8,192 are 4 to 9 % slower; texts of 256 tokens like 2,048 best by 5 %.
_PASS_TOKENS_CPU = 2048
_PASS_TOKENS_CUDA = 16384


class Model:
    """A loaded model on one device."""

    def __init__(self, load: Load, device: torch.device) -> None:
        """Reads the weights. Raises `ModelLoadFailed` with the reason."""
        self._name = load.model
        self._device = device
        parts = load_parts(load, device)
        self._encoder, self._heads, self._parameter_bytes = parts.encoder, parts.heads, parts.bytes
        self._takes, self._pools, self._filling = parts.takes, parts.pools, parts.filling
        self._max_tokens = load.max_tokens
        decoding = parts.decoding
        self.generator = None if decoding is None else Generator(load, decoding, device)
        self.threads = load.threads
        self._pass_tokens = _PASS_TOKENS_CUDA if device.type == "cuda" else _PASS_TOKENS_CPU

    @property
    def bytes(self) -> int:
        """Bytes of its tensors, of the activations of its largest pass, and of what generates."""
        heads = self._heads.values()
        generating = self.generator.bytes if self.generator is not None else 0
        if generating and not heads:
            return self._parameter_bytes + generating
        per_token = max((head.bytes_per_token for head in heads), default=0)
        fixed = max((head.bytes for head in heads), default=0)
        per_token += self._encoder.activation_bytes_per_token
        tokens = max(self._pass_tokens, self._max_tokens) if self._encoder.vocabulary else 0
        if self._takes is not None:
            tokens = max(tokens, self._takes.items(self._pass_tokens) * self._takes.tokens)
        return self._parameter_bytes + tokens * per_token + fixed + generating

    def warm_up(self) -> None:
        """A pass of each kind of item, so that the first request does not pay for first uses."""
        if self.generator is not None:
            self.generator.warm_up()
        if not self._heads:
            return
        one, names = np.ones(1, np.int64), list(self._heads)
        if self._encoder.vocabulary:
            self.run(Batch(np.zeros(1, np.int32), one), names)
        if (takes := self._takes) is not None and takes.place is None:
            self.run(Batch(np.zeros(0, np.int32), 0 * one, inputs=[takes.blank()]), names)
        elif takes is not None:
            places = np.full(takes.tokens, takes.place, np.int32)
            self.run(Batch(places, one * takes.tokens, inputs=[takes.blank()[None]]), names)

    def run(self, batch: Batch, names: list[str]) -> Outputs:
        """The outputs of these names, which are of its heads. Raises `InvalidRequest` for `generate`."""
        if not self._heads.keys() >= set(names):
            raise InvalidRequest(f"'{self._name}' answers no batch by what it generates")
        chosen = {name: self._heads[name] for name in names}
        failed = self._unfit(batch)
        items = len(batch.lengths)
        fit = np.array([item for item in range(items) if item not in failed], np.int64)
        passes = self._passes(batch, fit)
        said: dict[str, list[HeadOutput]] = {name: [] for name in chosen}
        with torch.inference_mode():
            for packed in passes:
                hidden = self._encoder.forward(packed)
                seen = packed.pooled if self._pools else packed
                for name, head in chosen.items():
                    said[name].append(head.compute(hidden, seen))
        order = [packed.rows for packed in passes]
        return Outputs(
            {name: restored(parts, order, items) for name, parts in said.items()},
            sum(packed.computed for packed in passes),
            failed,
        )

    def _passes(self, batch: Batch, fit: NDArray[np.int64]) -> list[Packed]:
        """The items that can be computed, those of tokens and those of media apart."""
        room, device = self._pass_tokens, self._device
        texts = fit[batch.lengths[fit] > 0]
        tokens, lengths = batch.tokens, batch.lengths
        if self._filling is not None:
            tokens, lengths = filled(tokens, lengths, texts, self._filling)
        passes = pack(
            tokens,
            lengths,
            texts,
            pass_tokens=room,
            device=device,
            splits=batch.splits,
            seen=batch.seen,
            marks=batch.marks,
        )
        if self._takes is None or batch.inputs is None:
            return passes
        if self._takes.place is not None:
            return among_tokens(passes, batch.inputs, device)
        if len(texts) == len(fit):
            return passes
        media = fit[batch.lengths[fit] == 0]
        return passes + pack_media(
            batch.inputs,
            media,
            self._takes,
            pass_tokens=room,
            device=device,
            beginnings=batch.beginnings,
        )

    def _unfit(self, batch: Batch) -> dict[int, ErrorInfo]:
        """Why items cannot be computed; what is wrong with one never touches its neighbours."""
        failed: dict[int, ErrorInfo] = {}
        for item in np.flatnonzero(batch.lengths == 0).tolist():
            if (error := self._unfit_media(batch.inputs, item)) is not None:
                failed[item] = error.info
        if self._takes is not None and self._takes.place is not None:
            failed |= _misplaced(batch, self._takes)
        return failed | batch.unfit(self._name, self._max_tokens, self._encoder.vocabulary)

    def _unfit_media(self, inputs: list[Media] | None, item: int) -> InvalidItem | None:
        """Why an item without tokens cannot be computed."""
        takes = self._takes
        if takes is None or takes.place is not None or inputs is None or not inputs[item].size:
            return InvalidItem("this item has no tokens")
        try:
            takes.check(inputs[item])
        except InvalidItem as error:
            return error
        return None


def _misplaced(batch: Batch, takes: Takes) -> dict[int, ErrorInfo]:
    """Items whose images are not those that their tokens have places for."""
    failed: dict[int, ErrorInfo] = {}
    ends = np.cumsum(batch.lengths)
    for item, (end, length) in enumerate(zip(ends.tolist(), batch.lengths.tolist(), strict=True)):
        places = int(np.count_nonzero(batch.tokens[end - length : end] == takes.place))
        try:
            takes.check_places(places, None if batch.inputs is None else batch.inputs[item])
        except InvalidItem as error:
            failed[item] = error.info
    return failed

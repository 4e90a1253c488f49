"""What a batch of `inputs: tokens` brings, read and looked through; and what comes of one.

Decides which batches make no sense as a whole and which items none by themselves. Values only: how
they are computed is each runtime's own.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import ErrorInfo, InvalidItem, InvalidRequest, TooManyTokens
from shoal.wire.arrays import Array, from_wire
from shoal.wire.outputs import Output
from shoal.wire.socket import Run

#: An image, the images among an item's tokens, or the sound of an item.
Media = NDArray[Any]


class Beginning(msgspec.Struct, frozen=True):
    """How a text that is written down of sound begins.

    Attributes:
        ids: with -1 where the language that is heard belongs; none: as the model does by itself.
        temperature: of the choice of tokens; below 0: rising from 0 as the text needs.
    """

    ids: tuple[int, ...] = ()
    temperature: float = -1.0


class Batch(msgspec.Struct, frozen=True):
    """Items as they came: `tokens` [sum of lengths], end to end; `lengths` [items]; `splits`
    [items], tokens of the first of two segments, 0 where there is one; `inputs`, an array an item,
    which counts where the item has no tokens or the model reads images among them; `seen` [items],
    its first tokens that are attended to, 0 for all; `marks` [sum of lengths], the tokens that stand
    for words and labels; `beginnings`, one an item, of the texts of sound."""

    tokens: NDArray[np.int32]
    lengths: NDArray[np.int64]
    splits: NDArray[np.int32] | None = None
    inputs: list[Media] | None = None
    seen: NDArray[np.int32] | None = None
    marks: NDArray[np.uint8] | None = None
    beginnings: list[Beginning] | None = None

    def unfit(self, model: str, max_tokens: int, vocabulary: int) -> dict[int, ErrorInfo]:
        """Items whose tokens cannot be computed, by position: too many, or none of the model's.

        `vocabulary`: ids go from 0 up to it; 0: the model takes no tokens.
        """
        failed: dict[int, ErrorInfo] = {}
        for item in np.flatnonzero(self.lengths > max_tokens).tolist():
            failed[item] = TooManyTokens(
                f"this item has {self.lengths[item]} tokens; {model} takes {max_tokens}"
            ).info
        strange = np.flatnonzero((self.tokens < 0) | (self.tokens >= vocabulary))
        owners = np.searchsorted(np.cumsum(self.lengths), strange, side="right")
        for item, token in zip(owners.tolist(), self.tokens[strange].tolist(), strict=True):
            failed[item] = InvalidItem(
                f"this item has token id {token}; {model} knows 0 to {vocabulary - 1}"
                if vocabulary
                else f"this item has tokens; {model} takes none"
            ).info
        return failed


class Outputs(msgspec.Struct, frozen=True):
    """`outputs`: by name, zeros or no rows where an item failed; `failed`: why."""

    outputs: dict[str, Output]
    computed_tokens: int
    failed: dict[int, ErrorInfo]


def read(run: Run) -> Batch:
    """The items of a batch. Raises `InvalidRequest` where its arrays disagree."""
    if run.tokens is None or run.lengths is None:
        raise InvalidRequest(f"'{run.model}' takes tokens and their lengths, and none came")
    tokens = _vector(run.tokens, "tokens")
    lengths = _vector(run.lengths, "lengths").astype(np.int64)
    if (lengths < 0).any() or int(lengths.sum()) != len(tokens):
        raise InvalidRequest(
            f"lengths must be counts that add up to the {len(tokens)} tokens of the batch"
        )
    marks = None if run.marks is None else _vector(run.marks, "marks", "uint8")
    if marks is not None and len(marks) != len(tokens):
        raise InvalidRequest(f"{len(marks)} marks came with {len(tokens)} tokens")
    inputs = None if run.inputs is None else [from_wire(array) for array in run.inputs]
    if inputs is not None and len(inputs) != len(lengths):
        raise InvalidRequest(f"{len(inputs)} inputs came with {len(lengths)} lengths")
    splits = _inside(run.splits, "splits", lengths)
    seen = _inside(run.seen, "seen", lengths)
    beginnings = _beginnings(run, len(lengths))
    return Batch(tokens, lengths, splits, inputs, seen, marks, beginnings)


def size_of(run: Run) -> str:
    """How large a batch is, for messages."""
    if run.lengths is not None and run.tokens is not None:
        return f"{run.lengths.shape[0]} items of {run.tokens.shape[0]} tokens"
    return f"{len(run.inputs or run.media or run.texts or ())} items"


def _inside(
    counts: Array | None, what: str, lengths: NDArray[np.int64]
) -> NDArray[np.int32] | None:
    if counts is None:
        return None
    read = _vector(counts, what)
    if len(read) != len(lengths) or (read < 0).any() or (read > lengths).any():
        raise InvalidRequest(
            f"{what} must be one an item, of {len(lengths)}, and inside its tokens"
        )
    return read


def _beginnings(run: Run, items: int) -> list[Beginning] | None:
    """Raises `InvalidRequest` for those that are not one an item."""
    if run.begins is None and run.temperatures is None:
        return None
    ids: list[tuple[int, ...]] = [()] * items
    if run.begins is not None:
        ids = [tuple(_vector(array, "begins").tolist()) for array in run.begins]
    temperatures = [-1.0] * items
    if run.temperatures is not None:
        temperatures = from_wire(run.temperatures).tolist()
    if not len(ids) == len(temperatures) == items:
        raise InvalidRequest(
            f"{len(ids)} beginnings and {len(temperatures)} temperatures came with {items} items"
        )
    return [Beginning(*of) for of in zip(ids, temperatures, strict=True)]


def _vector(array: Array, what: str, dtype: str = "int32") -> NDArray[Any]:
    if array.dtype != dtype or len(array.shape) != 1:
        raise InvalidRequest(
            f"{what} must be {dtype} of one dimension, not {array.dtype} of shape {array.shape}"
        )
    return from_wire(array)

"""What a model of the fake runtime costs and what goes wrong with it: `Load.options`."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import ModelLoadFailed
from shoal.runtimes.fake.timetable import Point, fault, seconds_of
from shoal.wire.socket import Load

#: A token id, or a piece of text where the inputs are texts.
Marker = int | str | None


class FakeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`Load.options` of the fake runtime.

    Attributes:
        inputs: what `Run` must bring.
        base_s, token_s, square_s, item_s: seconds(batch) = base + token·tokens + square·Σlen² +
            item·items, slept away; all zero is as fast as it can.
        new_token_s: what each token of a sequence takes that is generated; its prompt takes `token_s`.
        byte_s: what each byte of a file adds, where the inputs are media.
        table: measured (tokens, seconds) of batches, ascending; what it says comes on top.
        load_s, load_error, bytes: how long loading takes, why it fails, what it reports to hold.
        holds: whether it really holds `bytes`, in memory that was written to.
        leaks: how many of those bytes stay when it is unloaded.
        device_bytes: what the process may hold in all; a load beyond it is out of memory.
        max_items, max_tokens: batches of more items or tokens are out of memory.
        crash: a batch with this marker kills the process, as a segmentation fault would.
        hang: a batch with this marker never comes back.
        slow, slow_s: a batch with this marker takes so much longer than it should.
        nan: an item with this marker is answered with NaN.
        fail: an item with this marker fails alone.
    """

    inputs: Literal["tokens", "text", "media"] = "tokens"
    base_s: float = 0.0
    token_s: float = 0.0
    square_s: float = 0.0
    item_s: float = 0.0
    byte_s: float = 0.0
    new_token_s: float = 0.0
    table: list[Point] = []
    load_s: float = 0.0
    load_error: str | None = None
    bytes: int = 1_000_000
    holds: bool = False
    leaks: int = 0
    device_bytes: int | None = None
    max_items: int | None = None
    max_tokens: int | None = None
    crash: Marker = None
    hang: Marker = None
    slow: Marker = None
    slow_s: float = 1.0
    nan: Marker = None
    fail: Marker = None

    def cost_s(self, lengths: NDArray[np.int64], file_bytes: int = 0) -> float:
        """What a batch of items with these token counts takes, of files of so many bytes in all."""
        squares = int(lengths @ lengths) if self.square_s else 0
        tokens = int(lengths.sum())
        return (
            self.base_s
            + seconds_of(self.table, tokens)
            + self.token_s * tokens
            + self.square_s * squares
            + self.item_s * len(lengths)
            + self.byte_s * file_bytes
        )


def options_of(load: Load) -> FakeOptions:
    """Raises `ModelLoadFailed` for options that the fake runtime does not know."""
    try:
        options = msgspec.convert(load.options, FakeOptions)
    except msgspec.ValidationError as error:
        raise ModelLoadFailed(f"options: {error}") from None
    if (wrong := fault(options.table)) is not None:
        raise ModelLoadFailed(f"options: {wrong}")
    return options

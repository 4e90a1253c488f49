"""How much memory generation takes beside the weights, all of it fixed at load."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import torch

from shoal.errors import ModelLoadFailed
from shoal.runtimes import room
from shoal.runtimes.torch.families.base import Decoder, Writer
from shoal.runtimes.torch.generating.keys import bytes_per_place
from shoal.runtimes.torch.generating.sampling import Sampler
from shoal.wire.socket import Load


class _Device(NamedTuple):
    """What suits a kind of device.

    Attributes:
        rows: of prompts in a pass, at most.
        row_s: first guess of what one takes.
    """

    rows: int
    row_s: float


_CPU = _Device(512, 1e-3)
_CUDA = _Device(8192, 1e-5)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`Load.options` of a model that generates.

    Attributes:
        cache_tokens: for how many tokens of all sequences together there is room.
        pass_tokens: of prompts in a pass, at most.
    """

    cache_tokens: int | None = None
    pass_tokens: int | None = None


class Size(NamedTuple):
    """`places` for keys; `rows` of prompts in a pass, at most; `row_s`: what one takes at first;
    `bytes` of everything."""

    places: int
    rows: int
    row_s: float
    bytes: int


def of(load: Load, decoder: Decoder | Writer, dtype: torch.dtype, device: torch.device) -> Size:
    """Raises `ModelLoadFailed` for options that there are not."""
    of_device = _CUDA if device.type == "cuda" else _CPU
    place = bytes_per_place(decoder.kept, dtype)
    options = _options(load)
    gpu = device.type == "cuda"
    anew = isinstance(decoder, Writer)
    places = options.cache_tokens or room.places(
        load.max_tokens, load.sequences, place, gpu=gpu, anew=anew
    )
    rows = options.pass_tokens or of_device.rows
    # A prompt that is read apart is in no pieces, but several are read together.
    rows = max(rows, load.max_tokens) if anew else min(rows, load.max_tokens)
    if gpu:  # the keys of one layer, put end to end
        beside = places * place // len(decoder.kept)
    else:  # a mask, also as numbers
        beside = rows * min(places, load.max_tokens) * (torch.bool.itemsize + dtype.itemsize)
    together, shown = rows + load.sequences, 0
    if not isinstance(decoder, Writer) and decoder.seer is not None:
        together = max(together, decoder.seer.squares)
        # Rows of images in all places that a prompt may have, and those of a look that was begun.
        shown = min(places, load.sequences * load.max_tokens) * decoder.width * dtype.itemsize
        shown += max(rows, decoder.seer.squares) * decoder.seer.row_bytes
    passes = together * decoder.activation_bytes_per_token
    chosen = Sampler.bytes(load.sequences, decoder.vocabulary)
    return Size(places, rows, of_device.row_s, places * place + beside + passes + chosen + shown)


def _options(load: Load) -> Options:
    try:
        options = msgspec.convert(load.options, Options)
    except msgspec.ValidationError as error:
        raise ModelLoadFailed(f"options of the torch runtime: {error}") from None
    for name in options.__struct_fields__:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ModelLoadFailed(f"option {name} must be at least 1, not {value}")
    return options

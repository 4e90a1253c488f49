"""What a family is: the one file that knows how an architecture computes.

A family reads its own config, says which tensors it needs, and turns packed tokens into packed
hidden states. It knows nothing of heads, batches or messages.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import torch
from torch import Tensor

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.packed import Packed

Config = TypeVar("Config", bound=msgspec.Struct)


class Encoder(Protocol):
    """A loaded encoder.

    Attributes:
        vocabulary: token ids run from 0 to here, exclusive.
        max_tokens: the longest item that its positions allow.
        parameter_bytes: bytes of its tensors as they are held.
        activation_bytes_per_token: peak of what one token of a pass needs besides.
    """

    vocabulary: int
    max_tokens: int
    parameter_bytes: int
    activation_bytes_per_token: int

    def forward(self, packed: Packed) -> Tensor:
        """Hidden states after the last layer, [computed, hidden]."""


#: Folder, dtype (None: the half-precision one that suits the weights) and device -> the loaded encoder. Raises
#: `ModelLoadFailed` with the reason.
Family = Callable[[Path, torch.dtype | None, torch.device], Encoder]


def read_config(folder: Path, kind: type[Config]) -> Config:
    """The folder's config.json as `kind`. Raises `ModelLoadFailed` naming file and key."""
    path = folder / "config.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise ModelLoadFailed(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ModelLoadFailed(f"{path}: {error}") from None

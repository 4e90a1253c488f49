"""The one head that the library computes of a folder: a vector of each item, pooled and projected."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from shoal.errors import ModelLoadFailed

#: Its name on cards, in `Load.heads`.
DENSE = "dense"


class Dense(msgspec.Struct, frozen=True):
    """Options of the head. `projections`: folders of sentence-transformers' Dense modules."""

    pooling: Literal["mean", "cls", "last"] = "mean"
    projections: tuple[str, ...] = ()


def dense(heads: dict[str, dict[str, Any]]) -> Dense:
    """The options of a model's only head. Raises `ModelLoadFailed` for what is not computed here."""
    for output, options in heads.items():
        if (name := options.get("head", output)) != DENSE:
            raise ModelLoadFailed(
                f"the candle runtime has no head '{name}', only '{DENSE}'; "
                f"a profile with `runtime: torch` has all"
            )
    if len(heads) != 1:
        raise ModelLoadFailed(f"the candle runtime answers one output, not {', '.join(heads)}")
    (options,) = heads.values()
    try:
        return msgspec.convert(options, Dense)
    except msgspec.ValidationError as error:
        raise ModelLoadFailed(f"head '{DENSE}': {error}") from None

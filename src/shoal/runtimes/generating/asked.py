"""Whether a sequence can be generated as it was asked, before it costs anything."""

from __future__ import annotations

import math

from shoal.errors import InvalidRequest, TooManyTokens
from shoal.wire.arrays import from_wire
from shoal.wire.socket import Generate, Sampling


def check(
    asked: Generate, kind: str, vocabulary: int, max_tokens: int, *, anew: bool = False
) -> list[int]:
    """The prompt's ids; `kind`: of the runtime; `anew`: prompt and text have `max_tokens` each.

    Raises `InvalidRequest` with what cannot be, by its name.
    """
    if asked.adapter is not None:
        raise InvalidRequest(f"the {kind} runtime takes no adapters ({asked.adapter})")
    if asked.inputs:
        raise InvalidRequest(f"'{asked.model}' reads no images")
    if asked.tokens.dtype != "int32" or len(asked.tokens.shape) != 1:
        raise InvalidRequest(
            f"tokens must be int32 of one dimension, not {asked.tokens.dtype} of shape "
            f"{asked.tokens.shape}"
        )
    prompt: list[int] = from_wire(asked.tokens).tolist()
    if not prompt:
        raise InvalidRequest("the prompt has no tokens")
    strange = next((token for token in prompt if not 0 <= token < vocabulary), None)
    if strange is not None:
        raise InvalidRequest(
            f"the prompt has token id {strange}; {asked.model} knows 0 to {vocabulary - 1}"
        )
    if len(prompt) >= max_tokens + anew:
        also = "" if anew else ", its text included"
        raise TooManyTokens(
            f"the prompt has {len(prompt)} tokens; {asked.model} takes {max_tokens}{also}"
        )
    _check_sampling(asked.sampling, vocabulary)
    return prompt


def _check_sampling(sampling: Sampling, vocabulary: int) -> None:
    """Raises `InvalidRequest` naming the field."""
    bounds = {
        "temperature": (0.0, math.inf),
        "top_p": (0.0, math.inf),
        "top_k": (0, math.inf),
        "min_p": (0.0, 1.0),
        "presence": (-math.inf, math.inf),
        "frequency": (-math.inf, math.inf),
        "logprobs": (-1, vocabulary),
    }
    for name, (least, most) in bounds.items():
        value = getattr(sampling, name)
        if not (math.isfinite(value) and least <= value <= most):
            raise InvalidRequest(f"{name} must be a number from {least} to {most}, not {value}")
    if not (math.isfinite(sampling.repetition) and sampling.repetition > 0):
        raise InvalidRequest(f"repetition must be a number above 0, not {sampling.repetition}")
    for token, by in sampling.bias.items():
        if not 0 <= token < vocabulary or math.isnan(by):
            raise InvalidRequest(
                f"bias has {by} for token id {token}; it takes numbers for 0 to {vocabulary - 1}"
            )

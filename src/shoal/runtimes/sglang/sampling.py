"""How tokens are to be chosen, in SGLang's words, and what it cannot do as asked.

Pure. Written after ``sampling/sampling_params.py``, ``sampling/penaltylib`` and ``layers/sampler.py`` of
SGLang 0.5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.errors import InvalidRequest
from shoal.wire.socket import Sampling

_OBJECT = '{"type": "object"}'
#: What SGLang holds a seed in is a signed number of 64 bits.
_SEEDS = (1 << 63) - 1
#: Field -> what callers call it, the least and the most, as the server checks them.
_BOUNDS = {
    "presence": ("presence_penalty", -2.0, 2.0),
    "frequency": ("frequency_penalty", -2.0, 2.0),
    "repetition": ("repetition_penalty", 1e-6, 2.0),
}


class Able(NamedTuple):
    """What a server can do.

    Attributes:
        grammars: its grammar backend, ``none`` where it keeps no grammars.
        untempered: it tells likelihoods as they are before a temperature divides.
        generated_repetition: a repetition penalty may count generated tokens alone.
        seeded: it keeps seeds, and then no `min_p`, at which it would end.
    """

    grammars: str
    untempered: bool
    generated_repetition: bool
    seeded: bool = False


def params_of(sampling: Sampling, able: Able) -> dict[str, Any]:
    """``sampling_params`` of a request. Raises `InvalidRequest` with the field that it cannot keep."""
    _refuse(sampling, able)
    params: dict[str, Any] = {
        "max_new_tokens": sampling.new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        # Of no use where the likeliest is taken, and harmful to all that are drawn beside it.
        "min_p": sampling.min_p if sampling.temperature else 0.0,
        "presence_penalty": sampling.presence,
        "frequency_penalty": sampling.frequency,
        "repetition_penalty": sampling.repetition,
        "sampling_seed": sampling.seed & _SEEDS,
        # The model's own ends are in `stop` if they are to end a text. Where nothing is, nothing may;
        # with `ignore_eos` the server passes over `stop_token_ids` too.
        "stop_token_ids": sampling.stop,
        "ignore_eos": not sampling.stop,
    }
    if sampling.bias:
        params["logit_bias"] = {str(token): bias for token, bias in sampling.bias.items()}
    if sampling.grammar is not None:
        params |= _grammar(*sampling.grammar, able.grammars)
    return params


def _refuse(sampling: Sampling, able: Able) -> None:
    for field, (name, least, most) in _BOUNDS.items():
        if not least <= getattr(sampling, field) <= most:
            raise InvalidRequest(
                f"{name} is {getattr(sampling, field)}; SGLang takes {least:g} to {most:g}",
                param=name,
            )
    if sampling.repetition != 1 and not able.generated_repetition:
        raise InvalidRequest(
            f"repetition_penalty is {sampling.repetition}: SGLang counts only generated tokens, not "
            "the prompt's. Say 1 in the request or the card, or take that with the profile's option "
            "`generated_repetition: true`",
            param="repetition_penalty",
        )
    if sampling.min_p and sampling.temperature and able.seeded:
        raise InvalidRequest(
            f"min_p is {sampling.min_p}: this SGLang server keeps seeds, and takes no min_p beside them; "
            "ask for top_p or top_k, or start it without --enable-deterministic-inference",
            param="min_p",
        )
    if sampling.logprobs >= 0:
        _refuse_logprobs(sampling, able)


def _refuse_logprobs(sampling: Sampling, able: Able) -> None:
    """It tells likelihoods of after penalties, biases and grammars."""
    beside = {
        "presence_penalty": sampling.presence != 0,
        "frequency_penalty": sampling.frequency != 0,
        "repetition_penalty": sampling.repetition != 1,
        "logit_bias": bool(sampling.bias),
        "a grammar": sampling.grammar is not None,
    }
    if changed := [name for name, there in beside.items() if there]:
        raise InvalidRequest(
            f"logprobs beside {', '.join(changed)}: SGLang would tell likelihoods that these have "
            "changed, not the model's; ask for one of them",
            param="logprobs",
        )
    if sampling.temperature not in (0.0, 1.0) and not able.untempered:
        raise InvalidRequest(
            f"logprobs with temperature {sampling.temperature}: this SGLang server tells likelihoods of "
            "after the temperature; start it with SGLANG_RETURN_ORIGINAL_LOGPROB=1, or ask for "
            "temperature 0 or 1",
            param="logprobs",
        )


def _grammar(kind: str, text: str, backend: str) -> dict[str, str]:
    if backend == "none":
        raise InvalidRequest(
            "this SGLang server keeps no grammars: it runs with --grammar-backend none",
            param="grammar",
        )
    match kind:
        case "json_object":
            return {"json_schema": _OBJECT}
        case "json_schema":
            return {"json_schema": text}
        case "regex":
            return {"regex": text}
        case "lark" if backend == "llguidance":
            return {"ebnf": text}  # it reads Lark there
        case "lark":
            raise InvalidRequest(
                "a Lark grammar is kept only by an SGLang server with --grammar-backend llguidance; "
                f"this one has {backend}",
                param="grammar",
            )
    raise InvalidRequest(
        f"there is no grammar of kind {kind!r}; there are json_object, json_schema, regex and lark",
        param="grammar",
    )

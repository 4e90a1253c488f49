from __future__ import annotations

from typing import Any

import pytest

from shoal.errors import InvalidRequest
from shoal.runtimes.sglang.sampling import Able, params_of
from shoal.wire.socket import Sampling

ABLE = Able("xgrammar", untempered=True, generated_repetition=False)


def test_all_of_it() -> None:
    sampling = Sampling(
        9,
        temperature=0.7,
        top_p=0.9,
        top_k=40,
        min_p=0.05,
        presence=0.5,
        frequency=-0.5,
        seed=2**64 - 1,
        bias={3: -100.0},
        stop=[1, 2],
    )
    assert params_of(sampling, ABLE) == {
        "max_new_tokens": 9,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "repetition_penalty": 1.0,
        "sampling_seed": 2**63 - 1,
        "stop_token_ids": [1, 2],
        "ignore_eos": False,
        "logit_bias": {"3": -100.0},
    }


def test_all_tokens_and_no_end() -> None:
    params = params_of(Sampling(1, top_k=0), ABLE)
    assert (params["top_k"], params["ignore_eos"]) == (-1, True)


@pytest.mark.parametrize(
    ("kind", "text", "asked"),
    [
        ("json_object", "", {"json_schema": '{"type": "object"}'}),
        ("json_schema", '{"type": "array"}', {"json_schema": '{"type": "array"}'}),
        ("regex", "a+", {"regex": "a+"}),
    ],
)
def test_grammars(kind: str, text: str, asked: dict[str, str]) -> None:
    assert params_of(Sampling(1, grammar=(kind, text)), ABLE).items() >= asked.items()


def test_lark_where_the_server_reads_it() -> None:
    lark = Sampling(1, grammar=("lark", 'start: "a"'))
    params = params_of(lark, ABLE._replace(grammars="llguidance"))
    assert params["ebnf"] == 'start: "a"'
    with pytest.raises(InvalidRequest, match="--grammar-backend llguidance; this one has xgrammar"):
        params_of(lark, ABLE)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"presence": 2.5}, "presence_penalty"),
        ({"frequency": -3.0}, "frequency_penalty"),
        ({"repetition": 2.5}, "repetition_penalty"),
        ({"repetition": 1.1}, "repetition_penalty"),
        ({"grammar": ("gbnf", "")}, "grammar"),
        ({"logprobs": 1, "presence": 1.0}, "logprobs"),
        ({"logprobs": 0, "bias": {1: 1.0}}, "logprobs"),
        ({"logprobs": 2, "grammar": ("regex", "a")}, "logprobs"),
    ],
)
def test_what_it_cannot_do_is_named(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest, match=field) as refused:
        params_of(Sampling(1, **asked), ABLE)
    assert refused.value.param == field


def test_repetition_as_sglang_counts_it() -> None:
    able = ABLE._replace(generated_repetition=True)
    assert params_of(Sampling(1, repetition=1.1), able)["repetition_penalty"] == 1.1


def test_min_p_beside_seeds() -> None:
    seeded = ABLE._replace(seeded=True)
    with pytest.raises(InvalidRequest, match="takes no min_p beside them") as refused:
        params_of(Sampling(1, min_p=0.1), seeded)
    assert refused.value.param == "min_p"
    assert params_of(Sampling(1, min_p=0.1), ABLE)["min_p"] == 0.1
    assert params_of(Sampling(1, temperature=0.0, min_p=0.1), seeded)["min_p"] == 0.0


def test_likelihoods_with_a_temperature() -> None:
    tempered = ABLE._replace(untempered=False)
    assert params_of(Sampling(1, temperature=0.5, logprobs=1), ABLE)
    for temperature in (0.0, 1.0):
        assert params_of(Sampling(1, temperature=temperature, logprobs=1), tempered)
    with pytest.raises(InvalidRequest, match="after the temperature"):
        params_of(Sampling(1, temperature=0.5, logprobs=1), tempered)


def test_a_server_without_grammars() -> None:
    with pytest.raises(InvalidRequest, match="keeps no grammars"):
        params_of(Sampling(1, grammar=("regex", "a")), ABLE._replace(grammars="none"))

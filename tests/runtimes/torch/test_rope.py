"""Frequencies against the reference library's, and what config files may say of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from shoal.runtimes.torch.rope import Frequencies, Rope, RopeKeys, frequencies

WIDTH, POSITIONS = 64, 4096

SAID: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    {"rope_type": "yarn", "factor": 0.5},
    {"rope_type": "yarn", "factor": 4.0, "attention_factor": 0.7, "truncate": False},
    {"rope_type": "yarn", "factor": 8.0, "beta_fast": 16.0, "beta_slow": 2.0},
    {"rope_type": "yarn", "factor": 8.0, "mscale": 0.8, "mscale_all_dim": 0.5},
]


@pytest.mark.parametrize("said", SAID, ids=str)
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_equal_transformers(said: dict[str, Any], fraction: float) -> None:
    told = said | {"rope_theta": 50_000.0, "partial_rotary_factor": fraction}
    config = LlamaConfig(
        hidden_size=4 * WIDTH,
        num_attention_heads=4,
        max_position_embeddings=POSITIONS,
        rope_parameters=dict(told),
    )
    expected, scale = ROPE_INIT_FUNCTIONS[said["rope_type"]](config, torch.device("cpu"))
    ours = _frequencies(told)
    torch.testing.assert_close(ours.of(POSITIONS), expected)
    assert ours.scale == pytest.approx(scale)


def test_dynamic_ones_follow_the_length_of_an_item() -> None:
    told = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    config = LlamaConfig(
        hidden_size=4 * WIDTH,
        num_attention_heads=4,
        max_position_embeddings=POSITIONS,
        rope_parameters=dict(told),
    )
    ours = _frequencies(told)
    for tokens in (1, POSITIONS, POSITIONS + 1, 3 * POSITIONS):
        expected, _ = ROPE_INIT_FUNCTIONS["dynamic"](config, torch.device("cpu"), seq_len=tokens)
        torch.testing.assert_close(ours.of(tokens), expected)


@pytest.mark.parametrize(
    "file",
    [
        {"rope_theta": 7.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 7.0, "rope_scaling": {"rope_type": "linear", "factor": 2}},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 7.0, "factor": 2.0}},
    ],
    ids=str,
)
def test_files_of_every_age_say_the_same(file: dict[str, Any]) -> None:
    rope = msgspec.convert(file, RopeKeys).rope(theta=10_000.0)
    assert (rope.kind, rope.rope_theta, rope.factor) == ("linear", 7.0, 2.0)


def test_what_a_file_does_not_say() -> None:
    rope = msgspec.convert({"rope_scaling": None}, RopeKeys).rope(theta=10_000.0)
    assert (rope.kind, rope.rope_theta, rope.partial_rotary_factor) == ("default", 10_000.0, 1.0)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"rope_type": "longrope"}, "rope_type"),
        ({"type": "su"}, "type"),
        ({"rope_type": "linear"}, "needs factor"),
        ({"rope_type": "llama3", "factor": 8.0}, "needs low_freq_factor and high_freq_factor"),
    ],
    ids=str,
)
def test_what_is_not_computed_is_refused(said: dict[str, Any], error: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=error):
        msgspec.convert({"rope_scaling": said}, RopeKeys)


@pytest.mark.parametrize(("width", "fraction"), [(7, 1.0), (8, 0.1), (10, 0.5)])
def test_only_pairs_turn(width: int, fraction: float) -> None:
    with pytest.raises(ValueError, match="cannot turn in pairs"):
        frequencies(Rope().over(10_000.0, fraction), width, POSITIONS)


def test_fixed_ntk_is_the_published_formula() -> None:
    """https://kexue.fm/archives/9706 (6): base and all positions grow by the factor.

    The first dimension turns by ``1 / factor^(2/width)`` of what it did, the last by that and
    ``1 / factor^((width-2)/width)``: together the factor.
    """
    plain = _frequencies({"rope_theta": 20_000.0})
    ours = _frequencies({"rope_theta": 20_000.0, "type": "ntk", "factor": 8.0})
    slower = plain.plain / ours.plain
    assert slower[0].item() == pytest.approx(8 ** (2 / WIDTH))
    assert slower[-1].item() == pytest.approx(8.0)
    # Every step between two dimensions slows by the same.
    torch.testing.assert_close(slower[1:] / slower[:-1], slower[1:2] / slower[:1] * torch.ones(31))


def test_mixed_ntk_is_the_published_formula() -> None:
    """Its (10) to (13): dimension m is slowed by exp(a m^b), the last by the factor."""
    plain = _frequencies({"rope_theta": 20_000.0})
    said = {"rope_theta": 20_000.0, "type": "ntk", "factor": 8.0, "mixed_b": 0.625}
    slower = (plain.plain / _frequencies(said).plain).log()
    assert slower[-1].exp().item() == pytest.approx(8.0, rel=1e-5)
    assert (slower[15] / slower[-1]).item() == pytest.approx(0.5**0.625, rel=1e-4)


def _frequencies(said: dict[str, Any]) -> Frequencies:
    rope = msgspec.convert(said, Rope).over(10_000.0)
    return frequencies(rope, WIDTH, POSITIONS)

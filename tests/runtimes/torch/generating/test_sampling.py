"""Many rows at once against the rules of docs/protocol.md, one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shoal.runtimes.drawing import drawn
from shoal.runtimes.torch.generating.sampling import Row, Sampler
from shoal.wire.socket import Sampling

CPU = torch.device("cpu")
Floats = NDArray[np.float64]

KINDS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.3, "top_k": 7},
    {"temperature": 1.5, "top_p": 0.6},
    {"temperature": 2.0, "min_p": 0.2},
    {"temperature": 0.9, "top_k": 40, "top_p": 0.9, "min_p": 0.05},
    {"temperature": 5.0, "top_k": 3000},
    {"temperature": 40.0, "top_p": 0.999},
    {"temperature": 1e-30},
    {"temperature": 1.0, "top_p": 0.0},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 0.0, "repetition": 1.3, "presence": 0.7, "frequency": 0.4},
    {"temperature": 0.8, "repetition": 0.7, "presence": -1.0, "bias": {5: 3.0, 9: -100.0}},
    {"temperature": 0.0, "bias": {4: 100.0}},
]


def by_the_page(
    logits: Floats, sampling: Sampling, prompt: list[int], text: list[int], allowed: Any
) -> int:
    scores = logits.astype(np.float64)
    for token in {*prompt, *text}:
        positive = scores[token] > 0
        scores[token] *= 1 / sampling.repetition if positive else sampling.repetition
    for token in set(text):
        scores[token] -= sampling.presence + sampling.frequency * text.count(token)
    for token, by in sampling.bias.items():
        scores[token] += by
    if allowed is not None:
        scores[~allowed] = -np.inf
    if sampling.temperature == 0:
        return int(scores.argmax())
    scores = (scores - scores.max()) / sampling.temperature
    order = np.argsort(-scores, kind="stable")
    left = order[: sampling.top_k or None]
    likely = np.exp(scores[left])
    likely /= likely.sum()
    before = np.cumsum(likely) - likely
    count = max(1, int((before < sampling.top_p).sum())) if sampling.top_p < 1 else len(left)
    left, likely = left[:count], likely[:count]
    kept = likely >= sampling.min_p * likely[0]
    left, likely = left[kept], likely[kept]
    reached = np.cumsum(likely)
    at = int((reached <= drawn(sampling.seed, len(text)) * reached[-1]).sum())
    return int(left[at])


@pytest.mark.parametrize("vocabulary", [101, 4000])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_all_kinds_go_on_as_the_page_says(vocabulary: int, seed: int) -> None:
    """Twelve tokens of each text, so that penalties have something to count."""
    rng = np.random.default_rng(seed)
    sampler = Sampler(2 * len(KINDS), vocabulary, CPU)
    asked = [Sampling(99, **{"seed": seed * 100 + n} | kind) for n, kind in enumerate(KINDS * 2)]
    prompts = [rng.integers(0, vocabulary, 30).tolist() for _ in asked]
    texts: list[list[int]] = [[] for _ in asked]
    for place, sampling in enumerate(asked):
        sampler.begin(place, sampling, prompts[place])
    for _ in range(12):
        logits = rng.normal(0, 3, (len(asked), vocabulary)).astype(np.float32)
        masks = [rng.random(vocabulary) < 0.5 if n % 3 == 0 else None for n in range(len(asked))]
        rows = [
            Row(sampling, place, len(texts[place]), masks[place])
            for place, sampling in enumerate(asked)
        ]
        chosen = sampler.choose(torch.from_numpy(logits.copy()), rows)
        for n, choice in enumerate(chosen):
            expected = by_the_page(logits[n], asked[n], prompts[n], texts[n], masks[n])
            assert choice.token == expected, KINDS[n % len(KINDS)]
            texts[n].append(choice.token)


def test_of_equal_ones_the_lowest_id_comes_first() -> None:
    """Of 600 tokens that are alike the likeliest cannot be picked out by halves."""
    logits = torch.zeros(3, 600)
    logits[:, :30] = -5.0
    sampler = Sampler(3, 600, CPU)
    kinds = [Sampling(9, 0.0), Sampling(9, 1.0, top_k=1), Sampling(9, 1.0, top_k=5, seed=4)]
    chosen = sampler.choose(logits, [Row(kind, n, 0) for n, kind in enumerate(kinds)])
    assert [chosen[0].token, chosen[1].token] == [30, 30]
    assert chosen[2].token == 30 + int(5 * drawn(4, 0))


def test_what_is_drawn_is_as_likely_as_it_should_be() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]]).expand(4000, 4).clone()
    sampler = Sampler(1, 4, CPU)
    rows = [Row(Sampling(9, 1.0, seed=seed), 0, 0) for seed in range(4000)]
    counts = np.bincount([choice.token for choice in sampler.choose(logits, rows)], minlength=4)
    expected = torch.tensor([0.0, 1.0, 2.0, 3.0]).softmax(0).numpy()
    assert np.abs(counts / 4000 - expected).max() < 0.02


def test_logarithms_are_those_of_before_anything_changes() -> None:
    logits = torch.randn(2, 50, generator=torch.Generator().manual_seed(1))
    logs = logits.log_softmax(1)
    kinds = [Sampling(9, 0.7, top_k=3, bias={7: 50.0}, logprobs=4), Sampling(9, 0.0, logprobs=0)]
    chosen = Sampler(2, 50, CPU).choose(logits.clone(), [Row(k, n, 0) for n, k in enumerate(kinds)])
    assert chosen[0].token == 7
    assert chosen[0].log == pytest.approx(float(logs[0, 7]))
    top = logs[0].topk(4)
    assert chosen[0].top_ids.tolist() == top.indices.tolist()
    np.testing.assert_allclose(chosen[0].top_logs, top.values.numpy())
    assert chosen[1].log == pytest.approx(float(logs[1].max()))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_of_no_numbers_is_told_and_leaves_the_others(temperature: float) -> None:
    logits = torch.randn(3, 2000)
    logits[0, 3] = float("nan")
    rows = [Row(Sampling(9, temperature), n, 0) for n in range(3)]
    rows[1] = Row(Sampling(9, temperature), 1, 0, np.zeros(2000, np.bool_))
    chosen = Sampler(3, 2000, CPU).choose(logits, rows)
    assert [choice.sound for choice in chosen] == [False, False, True]

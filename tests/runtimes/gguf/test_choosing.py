"""One row with numpy against many with torch: of the same logits the same tokens."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.runtimes.gguf import choosing
from shoal.runtimes.gguf.choosing import Chooser
from shoal.wire.socket import Sampling

torch = pytest.importorskip("torch")

from shoal.runtimes.torch.generating.sampling import Row, Sampler  # noqa: E402

VOCABULARY = 3000
KINDS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.3, "top_k": 7},
    {"temperature": 1.5, "top_p": 0.6},
    {"temperature": 2.0, "min_p": 0.2},
    {"temperature": 0.9, "top_k": 40, "top_p": 0.9, "min_p": 0.05},
    {"temperature": 5.0, "top_k": 2000},
    {"temperature": 40.0, "top_p": 0.999},
    {"temperature": 1e-30},
    {"temperature": 1.0, "top_p": 0.0},
    {"temperature": 0.0, "repetition": 1.3, "presence": 0.7, "frequency": 0.4},
    {"temperature": 0.8, "repetition": 0.7, "presence": -1.0, "bias": {5: 3.0, 9: -100.0}},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_same_as_the_torch_sampler(kind: dict[str, Any]) -> None:
    random = np.random.default_rng(3)
    prompt = [1, 5, 9, 9]
    for seed in range(6):
        sampling = Sampling(40, **kind, seed=seed, logprobs=3)
        mine, other = Chooser(sampling, prompt), Sampler(1, VOCABULARY, torch.device("cpu"))
        other.begin(0, sampling, prompt)
        for place in range(12):
            # Few levels, so that several tokens are equally likely.
            logits = random.normal(scale=3.0, size=VOCABULARY).round(1).astype(np.float32)
            row = Row(sampling, 0, place)
            (there,) = other.choose(torch.from_numpy(logits.copy())[None], [row])
            here = mine.choose(logits.copy())
            assert here.token == there.token
            assert here.log == pytest.approx(there.log, abs=1e-5)
            np.testing.assert_allclose(here.top_logs, there.top_logs, atol=1e-5)


def plainly(logits: NDArray[np.float32], sampling: Sampling, number: float) -> int:
    """What is drawn where everything is put in order and added up in float64."""
    scores = (logits - logits.max()) / np.float32(sampling.temperature)
    ids = np.argsort(-scores, kind="stable")
    likely = np.exp(scores[ids].astype(np.float64))
    reached = likely.cumsum()
    kept = min(sampling.top_k or VOCABULARY, len(ids))
    mass = reached[kept - 1]
    if sampling.top_p < 1:
        kept = min(kept, max(1, int((reached - likely < sampling.top_p * mass).sum())))
    kept = min(kept, int((likely >= sampling.min_p).sum()))
    return int(ids[min(int((reached <= reached[kept - 1] * number).sum()), kept - 1)])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind["temperature"] > 0.1], ids=str)
def test_what_is_drawn_of_the_likeliest_is_what_is_drawn_of_all(
    kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(7)
    sampling = Sampling(1, **{k: v for k, v in kind.items() if k in ("top_k", "top_p", "min_p")})
    sampling = msgspec.structs.replace(sampling, temperature=kind["temperature"])
    for spread in (0.5, 2.0, 4.0):
        logits = random.normal(scale=spread, size=VOCABULARY).round(2).astype(np.float32)
        for number in (0.0, *random.random(40), 1 - 1e-6, np.nextafter(1.0, 0.0)):
            monkeypatch.setattr(choosing, "drawn", lambda seed, place, number=number: number)
            chosen = Chooser(sampling, []).choose(logits.copy()).token
            assert chosen == plainly(logits, sampling, number)


def test_a_grammar_leaves_what_it_allows() -> None:
    allowed = np.zeros(VOCABULARY, np.bool_)
    allowed[[7, 11]] = True
    logits = np.zeros(VOCABULARY, np.float32)
    tokens = {
        Chooser(Sampling(1, seed=s), []).choose(logits.copy(), allowed).token for s in range(30)
    }
    assert tokens == {7, 11}


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_where_there_is_none_to_choose(bad: float) -> None:
    logits = np.full(VOCABULARY, bad, np.float32)
    assert not Chooser(Sampling(1, temperature=1.0), []).choose(logits).sound

"""Requests to come, drawn from a seed or read from a trace, all before the world begins.

So every rival meets exactly the same requests. Knows nothing of who serves them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.sim.scenario import Model, Traffic

#: Share of time in which a model's rate is high, where traffic has bursts.
BURST_SHARE = 0.1
#: Shortest text: two special tokens and a word.
LEAST_TOKENS = 3

Floats = npt.NDArray[np.float64]


class Request(msgspec.Struct, frozen=True):
    """One HTTP call: `lengths` are the tokens of its items."""

    at: float
    model: int
    lengths: list[int]


def requests(
    models: tuple[Model, ...], traffic: Traffic, rate: float, seconds: float, seed: int
) -> list[Request]:
    """`rate` requests a second over all models, in order of time."""
    rng = np.random.default_rng(seed)
    times = [_times(traffic, rate * model.share, seconds, rng) for model in models]
    which = np.repeat(np.arange(len(models)), [len(t) for t in times])
    at = np.concatenate(times)
    order = np.argsort(at, kind="stable")
    counts = _items(traffic, len(at), rng)
    return list(_joined(models, at[order], which[order], counts, traffic, rng))


def _times(traffic: Traffic, rate: float, seconds: float, rng: np.random.Generator) -> Floats:
    """Arrivals of one model: a Poisson process whose time runs faster within bursts."""
    uniform = np.sort(rng.uniform(0.0, 1.0, rng.poisson(rate * seconds)))
    if traffic.burst <= 1.0:
        return uniform * seconds
    edges, levels = _bursts(traffic, seconds, rng)
    passed = np.concatenate([[0.0], np.cumsum(np.diff(edges) * levels)])
    times: Floats = np.interp(uniform * passed[-1], passed, edges)
    return times


def _bursts(traffic: Traffic, seconds: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Edges of periods and the rate within each: high for a tenth of the time, low between."""
    low_s = traffic.burst_s * (1 - BURST_SHARE) / BURST_SHARE
    count = 2 * int(seconds / (traffic.burst_s + low_s) * 2 + 8)
    lengths = rng.exponential(np.tile([low_s, traffic.burst_s], count))
    lengths[0] *= rng.uniform()
    edges = np.minimum(np.concatenate([[0.0], np.cumsum(lengths)]), seconds)
    return edges, np.tile([1.0, traffic.burst], count)


def _items(traffic: Traffic, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    if traffic.most_items == 1:
        return np.ones(count, dtype=np.int64)
    return rng.choice(np.arange(1, traffic.most_items + 1), count, p=traffic.sizes())


def _joined(
    models: tuple[Model, ...],
    at: Floats,
    which: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    traffic: Traffic,
    rng: np.random.Generator,
) -> Iterator[Request]:
    drawn = rng.lognormal(np.log(traffic.tokens_median), traffic.tokens_sigma, int(counts.sum()))
    longest = np.array([model.max_tokens for model in models])
    most = np.repeat(longest[which], counts)
    lengths = np.clip(np.rint(drawn), LEAST_TOKENS, most).astype(np.int64).tolist()
    start = 0
    for time, model, count in zip(at.tolist(), which.tolist(), counts.tolist(), strict=True):
        yield Request(time, model, lengths[start : start + count])
        start += count

"""Chooses the next token of one text with numpy, as docs/protocol.md, "Sequences", has it.

What is drawn is nearly always one of the likeliest, so those alone are put in order, and what all are
together is first known to five digits: of 49,152 logits that takes 0.1 ms, of 151,936 0.2. Where what is
drawn may depend on more, all are put in order (4 ms).
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.drawing import drawn
from shoal.runtimes.generating.choice import Choice, penalises
from shoal.wire.socket import Sampling

#: Logarithms of likelihoods by the highest: those above are put in order, then more, then all.
_NEAR = (-6.0, -12.0)
#: What a sum of float32 likelihoods is off, at most, as a part of it: a hundred times the rounding of one.
_OFF = 1e-5
_NONE_ID, _NONE = np.zeros(0, np.int32), np.zeros(0, np.float32)


class Chooser:
    """Of one text: what its prompt and it have so far."""

    def __init__(self, sampling: Sampling, prompt: list[int]) -> None:
        self._sampling = sampling
        self._penalises = penalises(sampling)
        self._prompt = set(prompt) if self._penalises else set()
        self._counts: Counter[int] = Counter()
        self._length = 0

    def choose(
        self, logits: NDArray[np.float32], allowed: NDArray[np.bool_] | None = None
    ) -> Choice:
        """The next token. logits: [vocabulary], which this may change; allowed: by its grammar."""
        sampling = self._sampling
        told = None if sampling.logprobs < 0 else _log_softmax(logits)
        self._penalise(logits)
        for token, by in sampling.bias.items():
            logits[token] += by
        if allowed is not None:
            logits[~allowed] = -np.inf
        token = int(logits.argmax())
        sound = bool(np.isfinite(logits[token]))
        if sound and sampling.temperature > 0:
            scores = (logits - logits[token]) / np.float32(sampling.temperature)
            token = _draw(scores, sampling, drawn(sampling.seed, self._length))
        self._length += 1
        if self._penalises:
            self._counts[token] += 1
        return _choice(token, sound, told, max(0, sampling.logprobs))

    def _penalise(self, logits: NDArray[np.float32]) -> None:
        if not self._penalises:
            return
        sampling = self._sampling
        seen = np.fromiter(self._prompt | self._counts.keys(), np.int64)
        values = logits[seen]
        by = np.float32(sampling.repetition)
        logits[seen] = np.where(values > 0, values / by, values * by)
        if self._counts:
            ids = np.fromiter(self._counts.keys(), np.int64)
            counts = np.fromiter(self._counts.values(), np.float32)
            logits[ids] -= np.float32(sampling.presence) + np.float32(sampling.frequency) * counts


def _draw(scores: NDArray[np.float32], sampling: Sampling, number: float) -> int:
    """One of those that are left; scores are 0 at their highest."""
    limited = sampling.top_k > 0
    whole = 0.0 if limited else float(np.exp(scores).sum(dtype=np.float64))
    for least in _NEAR:
        near = np.flatnonzero(scores > least)
        if limited and len(near) < sampling.top_k:
            continue
        ids = near[np.argsort(-scores[near], kind="stable")]
        low, _ = _drawn(scores[ids], whole * (1 - _OFF), sampling, number)
        high, sure = _drawn(scores[ids], whole * (1 + _OFF), sampling, number)
        if sure and low == high:
            return int(ids[high])
    ids = np.argsort(-scores, kind="stable")
    whole = float(np.exp(scores.astype(np.float64)).sum())
    return int(ids[_drawn(scores[ids], whole, sampling, number)[0]])


def _drawn(
    values: NDArray[np.float32], whole: float, sampling: Sampling, number: float
) -> tuple[int, bool]:
    """Where in `values`, highest first, and whether that is so whatever comes after them.

    `whole`: all likelihoods together; the more that is, the later is what is drawn, or the same.
    """
    count = len(values)
    likely = np.exp(values.astype(np.float64))
    reached = likely.cumsum()
    limited = sampling.top_k > 0
    last = min(sampling.top_k, count) - 1 if limited else count - 1
    mass = float(reached[last]) if limited else whole
    left = np.arange(count) <= last
    if sampling.top_p < 1:
        left &= reached - likely < sampling.top_p * mass
    left &= likely >= sampling.min_p
    left[0] = True
    kept = int(left.sum())
    everything = not limited and sampling.top_p >= 1 and sampling.min_p == 0
    share = (whole if everything else float(reached[kept - 1])) * number
    possible = min(kept, int((likely > 0).sum()))
    at = min(int((reached <= share).sum()), possible - 1)
    sure = share < reached[-1] if everything else kept < count
    return at, bool(sure)


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    highest = logits.max()
    total = np.exp((logits - highest).astype(np.float64)).sum()
    return logits - np.float32(float(highest) + np.log(total))


def _choice(token: int, sound: bool, told: NDArray[np.float32] | None, count: int) -> Choice:
    if told is None:
        return Choice(token, sound, 0.0, _NONE_ID, _NONE)
    top = np.zeros(0, np.int64)
    if count:
        first = np.argpartition(told, -count)[-count:]
        top = first[np.lexsort((first, -told[first]))]
    return Choice(token, sound, float(told[token]), top.astype(np.int32), told[top])

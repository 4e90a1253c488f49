"""Predicts how long a batch takes: seconds = base + sum over terms of weight·feature.

Which features count is decided by `TERMS`; for text that is base + token·tokens + square·Σlen² +
item·items. Starts from the card's seed and learns from every finished batch: least squares on
relative errors with exponential forgetting, in information form (Ljung, System Identification, 2nd
ed., §11.2), with weights kept non-negative by coordinate descent (Franc et al., 2005). All weights
are pulled towards the seed times one overall speed, which few batches tell well: so a handful of
tiny, noisy batches cannot make it believe that tokens are free, and equal batches leave what they
cannot tell apart in the seed's proportions. Fenced: whatever it is told, a prediction is a finite,
positive number of seconds; a measurement that is no number or an outlier is dropped, and the error
it makes is part of what is reported.
"""

from __future__ import annotations

import math
import operator
from typing import Literal

from shoal.core.quantiles import RunningQuantile
from shoal.values import Features, expected_new

#: Sums of predictions that differ by less are the same.
TINY_S = 1e-9

Vector = list[float]
#: What a model does. Files that are decoded count as texts: a model sees all of them in one size.
Work = Literal["text", "generate"]

#: The features that a batch's cost depends on, beside its fixed part.
TERMS: dict[Work, tuple[str, ...]] = {
    "text": ("tokens", "tokens_squared", "items"),
    "generate": ("tokens", "tokens_squared", "items", "new_tokens"),
}
#: Least seed of the base and of each term: a weight of zero could not be scaled up from.
LEAST_BASE_S = 1e-5
LEAST_SEED = {
    "tokens": 1e-8,
    "tokens_squared": 1e-12,
    "items": 1e-7,
    "new_tokens": 1e-7,
}
#: Evidence of one batch halves after about 23 batches: on a shared machine speed changes within
#: seconds. Slower forgetting took 226 instead of 96 batches to learn a threefold slowdown.
FORGETTING = 0.97
#: Weight of the seed's proportions against one batch: the square of a batch's relative noise (0.3 on
#: busy machines) over that of the proportions (about 0.6). At 0.1 one start in a hundred of twelve
#: tiny batches takes long texts for 20 times cheaper than they are, at 0.25 for 2.5 times.
PULL = 0.25
#: Weight of the seed's own speed against one batch.
SPEED_PULL = 1e-3
#: Sweeps of coordinate descent per batch; it starts where the last batch left it.
SWEEPS = 4
#: A measurement further off than this factor is a stall of the machine, not the model's cost,
#: unless several follow each other: then all that was learnt is wrong.
OUTLIER = 8.0
OUTLIERS_IN_A_ROW = 3
#: After this many batches the predictor is trusted to call a measurement an outlier.
WARM_BATCHES = 20
#: Tokens of a text that is generated, before any was; and the share of the newest in their mean.
NEW_TOKENS = 128.0
NEW_SHARE = 0.05
#: A text that was cut tells only that it would have been longer, and counts as one of so many times its
#: length: where lengths of any size are as likely, half of those that reach one come to twice it.
CUT_TIMES = 2.0
#: No text is longer, whatever a runtime tells: what a model can read ends there.
MOST_NEW = 1e6
#: Keeps divisions by weights that are zero finite.
TINY = 1e-9
#: Bounds of anything that is called the seconds of a batch: a clock's tick, and a day.
LEAST_S, MOST_S = 1e-6, 86_400.0
#: No batch has more of anything; a million tokens squared are 1e12.
MOST_COUNT = 1e15


class CostModel:
    """Cost of one model on one kind of lane: seconds of an empty batch, then of one of each term."""

    def __init__(
        self, base_s: float, *rates: float, terms: tuple[str, ...] = TERMS["text"]
    ) -> None:
        self._terms = terms
        least = [LEAST_BASE_S, *(LEAST_SEED[term] for term in terms)]
        given = [_fenced(seed) for seed in (base_s, *rates)]
        if not any(given):  # proportions that are all zero say nothing
            given = least
        # Weights are kept as multiples of the seed, so that all are of one size.
        self._seed = [max(g, low) for g, low in zip(given, least, strict=True)]
        self._prior = [g / s for g, s in zip(given, self._seed, strict=True)]
        self._scale = list(self._prior)
        self._outliers = 0
        self.new_tokens = NEW_TOKENS if "new_tokens" in terms else 0.0
        self._forget()
        self._weigh()
        self._error_p50 = RunningQuantile(0.5, first=0.1)
        self._error_p90 = RunningQuantile(0.9, first=0.3)

    @property
    def errors(self) -> tuple[float, float]:
        """About the median and the 90th percentile of the latest relative errors."""
        return self._error_p50.value, self._error_p90.value

    def batch_s(self, features: Features) -> float:
        """Predicted seconds of a batch with these features; texts that are still to be generated become
        as long as those before, as far as they may."""
        return self._batch_s(features, self.new_tokens)

    def _batch_s(self, features: Features, new_tokens: float) -> float:
        """`new_tokens`: that a text is taken to become."""
        try:
            seconds = (
                self.base_s
                + self.token_s * features.tokens
                + self._square_s * features.tokens_squared
                + self.per_item_s * features.items
            )
            if self.new_token_s:
                new = expected_new(features.items, features.new_tokens, new_tokens)
                seconds += self.new_token_s * new
        except OverflowError:  # a count beyond any float
            return MOST_S
        return min(MOST_S, max(LEAST_S, seconds))

    def item_s(self, tokens: int, most_new: int = 0) -> float:
        """Predicted seconds that one more item of this length adds to a batch; `most_new`: tokens that
        it may become, 0: not told."""
        item_s = self.token_s * tokens + self._square_s * tokens * tokens + self.per_item_s
        if self.new_token_s:
            item_s += self.new_token_s * expected_new(1, most_new, self.new_tokens)
        return item_s

    def line(self, most_tokens: int) -> tuple[float, float]:
        """(seconds a token, seconds an item): a line that meets the longest item.

        And a short one too, unless that would make items without tokens cost less than nothing, or than
        what is expected to be generated.
        """
        short = min(8, most_tokens)
        new_s = self.new_token_s * self.new_tokens
        shortest_s, longest_s = self.item_s(short) - new_s, self.item_s(most_tokens) - new_s
        token_s = (longest_s - shortest_s) / max(1, most_tokens - short)
        item_s = shortest_s - token_s * short
        if item_s < 0:
            token_s, item_s = longest_s / most_tokens, 0.0
        return token_s, item_s + new_s

    def learn(self, features: Features, seconds: float, *, cut: bool = False) -> None:
        """Take in what a batch really took. Nonsense is ignored. `cut`: a text had no room for more."""
        counts = [1, *(getattr(features, term) for term in self._terms)]
        if not (0 < seconds <= MOST_S and all(0 <= count <= MOST_COUNT for count in counts)):
            return
        seconds = max(LEAST_S, seconds)
        if self.new_tokens:
            self._learn_new(features.new_tokens / max(1, features.items), cut=cut)
        predicted = self._batch_s(features, max(features.new_tokens, self.new_tokens))
        error = abs(seconds - predicted) / seconds
        self._error_p50.add(error)
        self._error_p90.add(error)
        self._batches += 1
        odd = self._batches > WARM_BATCHES and not 1 / OUTLIER < seconds / predicted < OUTLIER
        self._outliers = self._outliers + 1 if odd else 0
        if odd and self._outliers < OUTLIERS_IN_A_ROW:
            return
        if odd:
            self._forget()
        self._update(counts, seconds, predicted)

    def _learn_new(self, tokens: float, *, cut: bool) -> None:
        """How long a text became."""
        told = max(CUT_TIMES * tokens, self.new_tokens) if cut else max(1.0, tokens)
        self.new_tokens += NEW_SHARE * (min(MOST_NEW, told) - self.new_tokens)

    def _forget(self) -> None:
        size = len(self._seed)
        self._information = [[0.0] * size for _ in range(size)]
        self._evidence = [0.0] * size
        self._batches = 0

    def _update(self, counts: list[float], seconds: float, predicted: float) -> None:
        # Relative errors count, so that long batches do not drown short ones. Divided by the
        # geometric mean of both, becoming slower is learnt as fast as becoming faster.
        size = math.sqrt(seconds * predicted)
        row = [s * n / size for s, n in zip(self._seed, counts, strict=True)]
        target = seconds / size
        for i, x in enumerate(row):
            self._evidence[i] = FORGETTING * self._evidence[i] + x * target
            self._information[i] = [
                FORGETTING * old + x * y for old, y in zip(self._information[i], row, strict=True)
            ]
        self._solve()
        self._weigh()

    def _weigh(self) -> None:
        """Turn multiples of the seed into seconds."""
        weights = [k * s for k, s in zip(self._scale, self._seed, strict=True)]
        self.base_s = weights[0]
        by_term = dict(zip(self._terms, weights[1:], strict=True))
        self.token_s = by_term.pop("tokens", 0.0)
        self._square_s = by_term.pop("tokens_squared", 0.0)
        self.per_item_s = by_term.pop("items", 0.0)
        # No text is free, whatever few batches made believe.
        new_token_s = by_term.pop("new_tokens", None)
        self.new_token_s = (
            0.0 if new_token_s is None else max(LEAST_SEED["new_tokens"], new_token_s)
        )

    def _solve(self) -> None:
        scale, prior = self._scale, self._prior
        speed = self._speed()
        # Relative pulls: a weight far from the seed's proportion is not held back by its size.
        pulls = [
            PULL / max(now, speed * before, TINY) ** 2
            for now, before in zip(scale, prior, strict=True)
        ]
        wanted = [
            seen + pull * speed * before
            for seen, pull, before in zip(self._evidence, pulls, prior, strict=True)
        ]
        rows = list(enumerate(zip(self._information, wanted, pulls, strict=True)))
        for _ in range(SWEEPS):
            for i, (line, target, pull) in rows:
                rest = _dot(line, scale) - line[i] * scale[i]
                scale[i] = max(0.0, (target - rest) / (line[i] + pull))

    def _speed(self) -> float:
        """The one factor on the seed that fits all batches best."""
        prior = self._prior
        seen = _dot(prior, self._evidence)
        predicted = _dot(prior, [_dot(line, prior) for line in self._information])
        return (seen + SPEED_PULL) / (predicted + SPEED_PULL)


def _dot(a: Vector, b: Vector) -> float:
    total: float = sum(map(operator.mul, a, b))
    return total


def _fenced(seed: float) -> float:
    """A card may say anything; what is no number of seconds counts as nothing."""
    return seed if 0 <= seed <= MOST_S else 0.0

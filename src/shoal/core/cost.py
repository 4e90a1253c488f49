"""Predicts how long a batch takes: seconds = base + token·tokens + square·Σlen² + item·items.

Starts from the card's seed and learns from every finished batch: least squares on relative errors
with exponential forgetting, in information form (Ljung, System Identification, 2nd ed., §11.2), with
weights kept non-negative by coordinate descent (Franc et al., 2005). All weights are pulled towards
the seed times one overall speed, which few batches tell well: so a handful of tiny, noisy batches
cannot make it believe that tokens are free, and equal batches leave what they cannot tell apart in
the seed's proportions. Fenced: a measurement that is no number or an outlier is dropped, and the
error it makes is part of what is reported.
"""

from __future__ import annotations

import math

from shoal.values import Features

Vector = list[float]

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
#: Share of the newest batch in the running mean of relative errors.
ERROR_SHARE = 0.05
#: Keeps divisions by weights that are zero finite.
TINY = 1e-9
#: Least seed of each weight: a weight of zero could not be scaled up from.
LEAST_SEED = (1e-5, 1e-8, 1e-12, 1e-7)


class CostModel:
    """Cost of one model on one kind of lane."""

    def __init__(self, base_s: float, token_s: float, square_s: float, item_s: float) -> None:
        seed = (base_s, token_s, square_s, item_s)
        # Weights are kept as multiples of the seed, so that all are of one size.
        self._seed = [max(w, least) for w, least in zip(seed, LEAST_SEED, strict=True)]
        self._scale = [w / s for w, s in zip(seed, self._seed, strict=True)]
        self._prior = list(self._scale)
        self._batches = 0
        self._outliers = 0
        self._forget()
        self.relative_error = 0.0
        self.base_s, self.token_s, self._square_s, self.per_item_s = seed

    def batch_s(self, features: Features) -> float:
        """Predicted seconds of a batch with these features."""
        return max(
            1e-6,
            self.base_s
            + self.token_s * features.tokens
            + self._square_s * features.tokens_squared
            + self.per_item_s * features.items,
        )

    def item_s(self, tokens: int) -> float:
        """Predicted seconds that one more item of this length adds to a batch."""
        return self.token_s * tokens + self._square_s * tokens * tokens + self.per_item_s

    def line(self, most_tokens: int) -> tuple[float, float]:
        """(seconds a token, seconds an item): a line that meets the longest item.

        And a short one too, unless that would make items without tokens cost less than nothing.
        """
        short = min(8, most_tokens)
        shortest_s, longest_s = self.item_s(short), self.item_s(most_tokens)
        token_s = (longest_s - shortest_s) / max(1, most_tokens - short)
        item_s = shortest_s - token_s * short
        return (token_s, item_s) if item_s >= 0 else (longest_s / most_tokens, 0.0)

    def learn(self, features: Features, seconds: float) -> None:
        """Take in what a batch really took. Nonsense is ignored."""
        if not (math.isfinite(seconds) and seconds > 0):
            return
        predicted = self.batch_s(features)
        self.relative_error += ERROR_SHARE * (
            abs(seconds - predicted) / seconds - self.relative_error
        )
        self._batches += 1
        odd = self._batches > WARM_BATCHES and not 1 / OUTLIER < seconds / predicted < OUTLIER
        self._outliers = self._outliers + 1 if odd else 0
        if odd and self._outliers < OUTLIERS_IN_A_ROW:
            return
        if odd:
            self._forget()
        self._update(features, seconds, predicted)

    def _forget(self) -> None:
        self._information = [[0.0] * 4 for _ in range(4)]
        self._evidence = [0.0] * 4
        self._batches = 0

    def _update(self, features: Features, seconds: float, predicted: float) -> None:
        counts = (1, features.tokens, features.tokens_squared, features.items)
        # Relative errors count, so that long batches do not drown short ones. Divided by the
        # geometric mean of both, becoming slower is learnt as fast as becoming faster.
        size = math.sqrt(seconds * predicted)
        row = [s * n / size for s, n in zip(self._seed, counts, strict=True)]
        target = seconds / size
        for i, x in enumerate(row):
            line = self._information[i]
            self._evidence[i] = FORGETTING * self._evidence[i] + x * target
            for j, y in enumerate(row):
                line[j] = FORGETTING * line[j] + x * y
        self._solve()
        weights = [k * s for k, s in zip(self._scale, self._seed, strict=True)]
        self.base_s, self.token_s, self._square_s, self.per_item_s = weights

    def _solve(self) -> None:
        scale, prior = self._scale, self._prior
        speed = self._speed()
        # Relative pulls: a weight far from the seed's proportion is not held back by its size.
        pulls = [PULL / max(scale[i], speed * prior[i], TINY) ** 2 for i in range(4)]
        for _ in range(SWEEPS):
            for i in range(4):
                line = self._information[i]
                rest = sum(line[j] * scale[j] for j in range(4)) - line[i] * scale[i]
                target = self._evidence[i] + pulls[i] * speed * prior[i] - rest
                scale[i] = max(0.0, target / (line[i] + pulls[i]))

    def _speed(self) -> float:
        """The one factor on the seed that fits all batches best."""
        prior = self._prior
        seen = sum(p * e for p, e in zip(prior, self._evidence, strict=True))
        predicted = sum(
            prior[i] * sum(line[j] * prior[j] for j in range(4))
            for i, line in enumerate(self._information)
        )
        return (seen + SPEED_PULL) / (predicted + SPEED_PULL)

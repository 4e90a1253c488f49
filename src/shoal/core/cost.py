"""Predicts how long a batch takes: seconds = base + token·tokens + square·Σlen² + item·items.

Starts from the card's seed and learns from every finished batch by recursive least squares with
exponential forgetting (Ljung, System Identification, 2nd ed., §11.2), projected onto
non-negative weights. Fenced: a measurement that is not finite, or an update that would be,
is dropped, and the error it makes is part of what it reports.
"""

from __future__ import annotations

import math

from shoal.values import Features

Vector = list[float]

#: Weight of one batch's evidence halves after about 140 batches: load and clocks drift in seconds.
FORGETTING = 0.995
#: Ceiling of the covariance's trace. Without it, equal batches wind it up until one odd batch
#: throws the weights away.
MAX_TRACE = 100.0
#: A measurement further off than this factor is a stall of the machine, not the model's cost.
OUTLIER = 8.0
#: Features are scaled so that a typical batch gives numbers near one.
SCALE = (1.0, 1e-3, 1e-6, 1e-2)
#: Share of the newest batch in the running mean of relative errors.
ERROR_SHARE = 0.05
#: After this many batches the predictor is trusted to call a measurement an outlier.
WARM_BATCHES = 20


class CostModel:
    """Cost of one model on one lane kind."""

    def __init__(self, base_s: float, token_s: float, square_s: float, item_s: float) -> None:
        seed = (base_s, token_s, square_s, item_s)
        self._weights = [w / s for w, s in zip(seed, SCALE, strict=True)]
        # Prior variance: each weight may be wrong by about its own size.
        self._cov = [[0.0] * 4 for _ in range(4)]
        for i, weight in enumerate(self._weights):
            self._cov[i][i] = max(weight, 1e-3)
        self._batches = 0
        self.relative_error = 0.0

    def batch_s(self, features: Features) -> float:
        """Predicted seconds of a batch with these features."""
        return max(1e-6, sum(w * x for w, x in zip(self._weights, _row(features), strict=True)))

    def item_s(self, tokens: int) -> float:
        """Predicted seconds that one more item of this length adds to a batch."""
        _, token, square, item = self._weights
        return token * SCALE[1] * tokens + square * SCALE[2] * tokens * tokens + item * SCALE[3]

    @property
    def base_s(self) -> float:
        return self._weights[0]

    @property
    def token_s(self) -> float:
        return self._weights[1] * SCALE[1]

    @property
    def per_item_s(self) -> float:
        return self._weights[3] * SCALE[3]

    def learn(self, features: Features, seconds: float) -> None:
        """Take in what a batch really took. Nonsense is ignored."""
        predicted = self.batch_s(features)
        if not (math.isfinite(seconds) and seconds > 0):
            return
        error = abs(seconds - predicted) / seconds
        self.relative_error += ERROR_SHARE * (error - self.relative_error)
        self._batches += 1
        if self._batches > WARM_BATCHES and not 1 / OUTLIER < seconds / predicted < OUTLIER:
            self._batches = 0  # a second such batch in a row is the new normal
            return
        self._update(_row(features), seconds)

    def _update(self, row: Vector, seconds: float) -> None:
        # Weighted by 1/seconds: relative error counts, so that long batches do not drown short ones.
        weight = 1.0 / max(seconds, 1e-5)
        row = [x * weight for x in row]
        cov_row = [sum(c * x for c, x in zip(line, row, strict=True)) for line in self._cov]
        denominator = FORGETTING + sum(x * c for x, c in zip(row, cov_row, strict=True))
        gain = [c / denominator for c in cov_row]
        residual = 1.0 - sum(w * x for w, x in zip(self._weights, row, strict=True))
        weights = [max(0.0, w + g * residual) for w, g in zip(self._weights, gain, strict=True)]
        if not all(map(math.isfinite, weights)):
            return
        self._weights = weights
        self._cov = [
            [(c - g * r) / FORGETTING for c, r in zip(line, cov_row, strict=True)]
            for line, g in zip(self._cov, gain, strict=True)
        ]
        self._bound()

    def _bound(self) -> None:
        trace = sum(self._cov[i][i] for i in range(4))
        if trace > MAX_TRACE:
            self._cov = [[c * MAX_TRACE / trace for c in line] for line in self._cov]


def _row(features: Features) -> Vector:
    return [
        1.0 * SCALE[0],
        features.tokens * SCALE[1],
        features.tokens_squared * SCALE[2],
        features.items * SCALE[3],
    ]

"""How long before a lane is free its next batch is asked for.

Long enough for a pull and for preparing what it brings, and for batches that end before their time:
a lane that is free earlier runs whatever is there, and its batch is smaller. Not longer: what was
pulled cannot go to another worker. Estimated as TCP does its timer: mean and deviation (RFC 6298).
"""

from __future__ import annotations

#: Share of the newest batch in means.
SHARE = 0.1
#: Deviations that are waited for beyond the mean.
DEVIATIONS = 2.0
#: The longest lead, whatever was seen: a stalled machine must not make a worker hoard.
MOST_S = 0.02


class Lead:
    """What was seen of pulls and batches. With one model at full load on GPUs of 10 % noise, 4 ms
    gave batches of 5,800 tokens, and this of as many as round robin's 7,000 (`shoal sim`).

    `least_s`: what is kept whatever was seen; half of it covers forming and sending a batch.
    """

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._took_s = 0.0
        self._took_off_s = 0.0
        self._early_s = 0.0
        self.seconds = least_s

    def took(self, seconds: float) -> None:
        """From asking for a batch to its last unit prepared."""
        seconds = min(seconds, MOST_S)
        self._took_off_s += SHARE * (abs(seconds - self._took_s) - self._took_off_s)
        self._took_s += SHARE * (seconds - self._took_s)
        self._set()

    def computed(self, predicted_s: float, seconds: float) -> None:
        """A batch took so long; only what it ended early matters."""
        early_s = min(max(0.0, predicted_s - seconds), MOST_S)
        self._early_s += SHARE * (early_s - self._early_s)
        self._set()

    def _set(self) -> None:
        off_s = self._took_off_s + 2 * self._early_s  # half of all batches end early
        lead_s = self._least_s / 2 + self._took_s + DEVIATIONS * off_s
        self.seconds = min(MOST_S, max(self._least_s, lead_s))

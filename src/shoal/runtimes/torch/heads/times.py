"""Where times may stand in a text that Whisper says: in pairs, never going back.

Reference: `transformers.generation.logits_process.WhisperTimeStampLogitsProcessor`.
"""

from __future__ import annotations

from torch import Tensor

_NEVER = float("-inf")


class Times:
    """The rules; all ids above `none`, which says that there are no times, are times."""

    def __init__(self, none: int, end: int, latest_first: int | None) -> None:
        self._none, self._end, self._latest_first = none, end, latest_first
        self._first = none + 1

    def allowed(self, logits: Tensor, texts: list[list[int]]) -> Tensor:
        """Logits [clips, vocabulary] after the texts so far, with what may not follow ruled out."""
        logits[:, self._none] = _NEVER
        for row, text in zip(logits, texts, strict=True):
            self._pair(row, text)
        if not texts[0]:
            logits[:, : self._first] = _NEVER
            if self._latest_first is not None:
                logits[:, self._first + self._latest_first + 1 :] = _NEVER
        # Where a time, whichever, is likelier than any one word, it is a time.
        shares = logits.log_softmax(1)
        times = shares[:, self._first :].logsumexp(1)
        words = shares[:, : self._first].amax(1)
        logits[:, : self._first].masked_fill_((times > words)[:, None], _NEVER)
        return logits

    def _pair(self, row: Tensor, text: list[int]) -> None:
        first = self._first
        after_time = bool(text) and text[-1] >= first
        after_pair = len(text) < 2 or text[-2] >= first
        if after_time and after_pair:
            row[first:] = _NEVER
        elif after_time:
            row[: self._end] = _NEVER
        last = max((token for token in text if token >= first), default=None)
        if last is not None:
            # A piece may end when it begins, and the next begin where it ended, but no later one.
            row[first : last if after_time and not after_pair else last + 1] = _NEVER

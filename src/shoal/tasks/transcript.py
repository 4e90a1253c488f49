"""`extract`: token ids that a speech model said to a text with times. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from shoal.tasks.outputs import EXTRACT, Rows

#: Seconds from one time that a model can say to the next.
STEP_S = 0.02

_encode = msgspec.msgpack.Encoder().encode


class Segment(msgspec.Struct, frozen=True):
    """What was said from one second to another."""

    start_s: float
    end_s: float
    text: str


class Transcript(msgspec.Struct, frozen=True):
    """What is told of the ids of a clip's windows.

    Attributes:
        text_of: token ids -> their text.
        first_time: the id that means the start of a window; those above it are later.
        languages: by id.
        starts_s: of each window. `seconds`: of the whole clip.
    """

    text_of: Callable[[list[int]], str]
    first_time: int
    languages: dict[int, str]
    starts_s: tuple[float, ...]
    seconds: float

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> bytes:
        """``{"text", "segments": [{"start_s", "end_s", "text"}]}``, and ``language`` if heard."""
        answer: dict[str, Any] = {}
        segments: list[Segment] = []
        ends = (*self.starts_s[1:], self.seconds)
        for row, start_s, end_s in zip(rows, self.starts_s, ends, strict=True):
            ids = np.asarray(row[EXTRACT]).tolist()
            if ids and ids[0] in self.languages:
                answer.setdefault("language", self.languages[ids.pop(0)])
            segments += self._segments(ids, start_s, end_s)
        answer["text"] = "".join(segment.text for segment in segments).strip()
        answer["segments"] = [
            Segment(segment.start_s, segment.end_s, segment.text.strip()) for segment in segments
        ]
        return _encode(answer)

    def _segments(self, ids: list[int], start_s: float, end_s: float) -> list[Segment]:
        """Words between two times; without times, all words of the window."""
        found: list[Segment] = []
        since, words = start_s, []
        for token in ids:
            if token < self.first_time:
                words.append(token)
                continue
            at = min(end_s, round(start_s + (token - self.first_time) * STEP_S, 3))
            if words:
                found.append(Segment(since, at, self.text_of(words)))
                words = []
            since = at
        if words:
            found.append(Segment(since, end_s, self.text_of(words)))
        return [segment for segment in found if segment.text.strip()]

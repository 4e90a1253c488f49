"""`extract`: token ids that a speech model said to a text with times; whether to say it again. Pure.

Source: Radford et al., 2022, section 4.5; `transformers.models.whisper.generation_whisper`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from shoal.tasks.outputs import EXTRACT, Rows
from shoal.wire.objects import Segment
from shoal.wire.outputs import Sparse

#: Seconds from one time that a model can say to the next.
STEP_S = 0.02
#: In the order in which they are tried.
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
#: A text of less mean likelihood went wrong; or nothing was said, if that is as likely as this.
LEAST_LOGPROB, NO_SPEECH = -1.0, 0.6
#: A text whose ids can be compressed by more repeats itself: what 2.4 is of Whisper's texts, in
#: transformers' measure of ids.
MOST_COMPRESSION = 1.35

_encode = msgspec.msgpack.Encoder().encode


def is_silence(avg_logprob: float, no_speech: float) -> bool:
    """Whether a text is only made up. `no_speech`: the likelihood that nothing was said."""
    return avg_logprob < LEAST_LOGPROB and no_speech > NO_SPEECH


def went_wrong(ids: list[int], avg_logprob: float, no_speech: float, vocabulary: int) -> bool:
    """Whether a text is to be said again, at a higher temperature. `ids`: its end included."""
    if is_silence(avg_logprob, no_speech):
        return False
    width = int(math.log2(vocabulary) / 8) + 1
    data = b"".join(token.to_bytes(width, "little") for token in ids)
    return avg_logprob < LEAST_LOGPROB or _compression(data) > MOST_COMPRESSION


def _compression(data: bytes) -> float:
    return len(data) / len(zlib.compress(data))


class Window(msgspec.Struct, frozen=True):
    """What a speech model said of a window.

    Attributes:
        ids: of words and times. `language`: that of its token, where the model knows several.
        avg_logprob: over the ids and the end. `no_speech`: the likelihood that nothing was said.
    """

    ids: list[int]
    avg_logprob: float
    no_speech: float
    temperature: float
    language: str | None = None


class Transcript(msgspec.Struct, frozen=True):
    """What is told of the ids of a clip's windows.

    Attributes:
        text_of: token ids -> their text.
        first_time: the id that means the start of a window; those above it are later.
        end: the id that ends a text.
        languages: by id.
        starts_s: of each window. `seconds`: of the whole clip.
    """

    text_of: Callable[[list[int]], str]
    first_time: int
    end: int
    languages: dict[int, str]
    starts_s: tuple[float, ...]
    seconds: float

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> bytes:
        """``{"text", "segments": [{"start_s", "end_s", "text", …}], "duration_s"}``, and
        ``language`` if heard."""
        answer: dict[str, Any] = {}
        segments: list[Segment] = []
        ends = (*self.starts_s[1:], self.seconds)
        for row, start_s, end_s in zip(rows, self.starts_s, ends, strict=True):
            window = self._read(cast(Sparse, row[EXTRACT]))
            if window.language is not None:
                answer.setdefault("language", window.language)
            if not is_silence(window.avg_logprob, window.no_speech):
                segments += self._segments(window, start_s, end_s)
        answer["text"] = "".join(segment.text for segment in segments).strip()
        answer["segments"] = [
            msgspec.structs.replace(segment, text=segment.text.strip()) for segment in segments
        ]
        answer["duration_s"] = self.seconds
        return _encode(answer)

    def _read(self, row: Sparse) -> Window:
        """A row has the temperature, how likely silence is, and the language before its ids."""
        ids, values = row.indices.tolist(), row.values.tolist()
        start = 3 if len(ids) > 2 and ids[2] in self.languages else 2
        language = self.languages[ids[2]] if start == 3 else None
        logs = values[start:]
        avg = sum(logs) / len(logs) if logs else 0.0
        said = [token for token in ids[start:] if token != self.end]
        return Window(said, avg, math.exp(values[1]), round(values[0], 3), language)

    def _segments(self, window: Window, start_s: float, end_s: float) -> list[Segment]:
        """Words between two times; without times, all words of the window."""
        found: list[tuple[float, float, str]] = []
        since, words = start_s, []
        for token in window.ids:
            if token < self.first_time:
                words.append(token)
                continue
            at = min(end_s, round(start_s + (token - self.first_time) * STEP_S, 3))
            if words:
                found.append((since, at, self.text_of(words)))
                words = []
            since = at
        if words:
            found.append((since, end_s, self.text_of(words)))
        whole = "".join(text for _, _, text in found).strip().encode()
        surely = (
            round(window.avg_logprob, 4),
            round(_compression(whole), 4),
            round(window.no_speech, 4),
            window.temperature,
        )
        return [Segment(*segment, *surely) for segment in found if segment[2].strip()]

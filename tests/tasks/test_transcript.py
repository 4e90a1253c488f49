from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from shoal.tasks.transcript import Transcript

WORDS = {1: " Go", 2: " on", 3: " now", 4: " "}
TIME = 100  # the id of 0.00 s
GERMAN = 50


def told(*rows: list[int], starts_s: tuple[float, ...] = (0.0,), seconds: float = 30.0) -> Any:
    text_of = lambda ids: "".join(WORDS[token] for token in ids)  # noqa: E731
    made = Transcript(text_of, TIME, {GERMAN: "de"}, starts_s, seconds)
    answer = made([{"extract": np.array(row, np.int32)} for row in rows])
    return msgspec.msgpack.decode(answer)


def segment(start_s: float, end_s: float, text: str) -> dict[str, Any]:
    return {"start_s": start_s, "end_s": end_s, "text": text}


def test_pairs_of_times_make_segments() -> None:
    said = [GERMAN, TIME, 1, 2, TIME + 50, TIME + 60, 3, TIME + 100]
    assert told(said) == {
        "language": "de",
        "text": "Go on now",
        "segments": [segment(0.0, 1.0, "Go on"), segment(1.2, 2.0, "now")],
    }


def test_what_has_no_last_time_ends_with_its_window() -> None:
    said = told([TIME + 5, 1, TIME + 10, TIME + 10, 2], seconds=2.5)
    assert said["segments"] == [segment(0.1, 0.2, "Go"), segment(0.2, 2.5, "on")]
    assert told([1, 2, 3], seconds=4.0)["segments"] == [segment(0.0, 4.0, "Go on now")]


def test_windows_follow_each_other() -> None:
    said = told(
        [GERMAN, TIME, 1, TIME + 1500],
        [GERMAN, TIME + 10, 2, TIME + 20],
        starts_s=(0.0, 28.5),
        seconds=40.0,
    )
    assert said["text"] == "Go on"
    # No segment reaches into the next window, however long the model takes its own to be.
    assert said["segments"] == [segment(0.0, 28.5, "Go"), segment(28.7, 28.9, "on")]


def test_silence_has_no_segments() -> None:
    assert told([]) == {"text": "", "segments": []}
    assert told([TIME, 4, TIME + 2])["segments"] == []

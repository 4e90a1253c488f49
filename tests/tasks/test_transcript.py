from __future__ import annotations

import math
import zlib
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from transformers.models.whisper.generation_whisper import WhisperGenerationMixin

from shoal.tasks.transcript import MOST_COMPRESSION, Transcript, is_silence, went_wrong
from shoal.wire.outputs import Sparse

WORDS = {1: " Go", 2: " on", 3: " now", 4: " "}
TIME = 100  # the id of 0.00 s
GERMAN = 50


END = 90
SILENCE = 99


def row(
    ids: list[int], *, temperature: float = 0.0, silence: float = 0.01, log: float = -0.5
) -> Sparse:
    """As the head tells it; every id is as likely."""
    known = [ids[0]] if ids[:1] == [GERMAN] else []
    said = [*ids[len(known) :], END]
    values = [temperature, math.log(silence), *(0.0 for _ in known), *(log for _ in said)]
    return Sparse(np.array([-1, SILENCE, *known, *said], np.int32), np.array(values, np.float32))


def read(*rows: Sparse, starts_s: tuple[float, ...] = (0.0,), seconds: float = 30.0) -> Any:
    text_of = lambda ids: "".join(WORDS[token] for token in ids)  # noqa: E731
    made = Transcript(text_of, TIME, END, {GERMAN: "de"}, starts_s, seconds)
    return msgspec.msgpack.decode(made([{"extract": row} for row in rows]))


def told(*rows: list[int], **options: Any) -> Any:
    """Without what is told of how sure that is."""
    answer = read(*(row(ids) for ids in rows), **options)
    assert answer.pop("duration_s") == options.get("seconds", 30.0)
    names = ("start_s", "end_s", "text")
    answer["segments"] = [{name: one[name] for name in names} for one in answer["segments"]]
    return answer


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


def test_how_sure_a_window_is_stands_at_its_segments() -> None:
    said = [TIME, 1, 2, TIME + 50, TIME + 50, 3, TIME + 100]
    first, second = read(row(said, temperature=0.2, silence=0.25, log=-0.75))["segments"]
    assert {name: first[name] for name in ("avg_logprob", "no_speech_prob", "temperature")} == {
        "avg_logprob": -0.75,
        "no_speech_prob": 0.25,
        "temperature": 0.2,
    }
    text = b"Go on now"
    assert first["compression_ratio"] == round(len(text) / len(zlib.compress(text)), 4)
    assert {**first, **segment(1.0, 2.0, "now")} == second


def test_what_was_made_up_of_silence_is_not_told() -> None:
    said = [TIME, 1, TIME + 50]
    assert read(row(said, silence=0.7, log=-1.25))["text"] == ""
    assert read(row(said, silence=0.5, log=-1.25))["text"] == "Go"
    assert read(row(said, silence=0.7, log=-0.75))["text"] == "Go"


@pytest.mark.parametrize(
    ("avg", "silence", "ids", "silent", "wrong"),
    [
        (-0.5, 0.9, list(range(40)), False, False),
        (-1.1, 0.1, list(range(40)), False, True),
        (-1.1, 0.9, list(range(40)), True, False),
        (-0.1, 0.1, [7, 8] * 20, False, True),
    ],
)
def test_a_text_is_said_again(
    avg: float, silence: float, ids: list[int], silent: bool, wrong: bool
) -> None:
    assert is_silence(avg, silence) is silent
    assert went_wrong(ids, avg, silence, 51_864) is wrong


def test_repetition_is_measured_as_the_reference_does() -> None:
    mixin: Any = WhisperGenerationMixin
    for ids in (list(range(30)), [7, 8] * 20, [50_000] * 9, [3, 1, 4, 1, 5, 9, 2, 6] * 2):
        theirs: float = mixin._retrieve_compression_ratio(torch.tensor(ids), 51_865)
        assert went_wrong(ids, 0.0, 0.0, 51_865) == (theirs > MOST_COMPRESSION)

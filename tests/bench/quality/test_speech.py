"""Transcripts of clips, and sentences: the same ones every time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from shoal.bench.quality import speech

LINES = "<s> ten of clubs  </s> (001)\n\n<s> five five </s> (sense_and-0002)\nno clip\n"


def test_words_by_clip() -> None:
    assert speech.said_in(LINES) == {"001": "ten of clubs", "sense_and-0002": "five five"}


def test_clips_lie_beside_their_transcript(tmp_path: Path) -> None:
    (tmp_path / "transcription").write_text(LINES)
    for number, name in enumerate(("001", "sense_and-0002")):
        (tmp_path / f"{name}.wav").write_bytes(struct.pack("B", number))
    first, second = speech.read(tmp_path / "transcription")
    assert (first.said, first.wav) == ("ten of clubs", b"\0")
    assert (second.said, second.wav) == ("five five", b"\1")


def test_a_missing_clip_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "transcription").write_text(LINES)
    with pytest.raises(FileNotFoundError, match=r"001\.wav"):
        speech.read(tmp_path / "transcription")

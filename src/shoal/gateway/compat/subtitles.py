"""Transcripts as subtitles. Decides how times and lines are written; pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def srt(segments: Iterable[dict[str, Any]]) -> str:
    """SubRip: numbered, with a comma before milliseconds."""
    blocks = [f"{n}\n{_line(s, ',')}\n{_text(s)}\n" for n, s in enumerate(segments, 1)]
    return "\n".join(blocks)


def vtt(segments: Iterable[dict[str, Any]]) -> str:
    """WebVTT: https://www.w3.org/TR/webvtt1/"""
    return "WEBVTT\n\n" + "\n".join(f"{_line(s, '.')}\n{_text(s)}\n" for s in segments)


def _line(segment: dict[str, Any], point: str) -> str:
    return f"{_time(segment['start_s'], point)} --> {_time(segment['end_s'], point)}"


def _text(segment: dict[str, Any]) -> str:
    """An arrow or an empty line would end the block."""
    lines = segment["text"].strip().replace("-->", "->").splitlines()
    return "\n".join(line for line in lines if line.strip())


def _time(seconds: float, point: str) -> str:
    ms = round(seconds * 1000)
    hours, minutes = ms // 3_600_000, ms // 60_000 % 60
    return f"{hours:02}:{minutes:02}:{ms // 1000 % 60:02}{point}{ms % 1000:03}"

"""Clips of English speech with what is said in them, from Debian's tests of PocketSphinx.

Sentences of a LibriVox reading and names of cards, 16 kHz; BSD, and public domain (see the package's
copyright file).
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from shoal.bench.quality.debian import unpacked
from shoal.bench.quality.handbook import spread

_FOLDERS = ("librivox", "cards")
_TRANSCRIPTS = ("transcription", "cards.transcription")
#: ``<s> ten of clubs  </s> (001)``: the words, and the name of the clip.
_LINE = re.compile(r"<s>(?P<words>.*)</s>\s*\((?P<name>[^)]+)\)")


class Clip(msgspec.Struct, frozen=True):
    """A WAV file, and the words that it holds."""

    said: str
    wav: bytes


def clips(count: int) -> list[Clip]:
    """At most so many, of both kinds. Raises `BenchFailed` where the package cannot be fetched."""
    folder = unpacked(
        "pocketsphinx-testdata",
        "usr/share/pocketsphinx/test/data",
        lambda name: name.startswith(_FOLDERS) and name.endswith((".wav", *_TRANSCRIPTS)),
    )
    found = [
        read(folder / name / lines) for name, lines in zip(_FOLDERS, _TRANSCRIPTS, strict=True)
    ]
    return spread([clip for part in found for clip in part], count)


def read(transcript: Path) -> list[Clip]:
    """The clips that a transcript tells of, which lie beside it."""
    return [
        Clip(said, (transcript.parent / f"{name}.wav").read_bytes())
        for name, said in said_in(transcript.read_text(encoding="utf-8")).items()
    ]


def said_in(lines: str) -> dict[str, str]:
    """What is said, by the names of clips."""
    return {line["name"]: line["words"].strip() for line in _LINE.finditer(lines)}

"""Sound: the bytes of a file to samples of one channel at a model's rate, and to its spectrogram.

WAV is read here, FLAC, MP3 and Ogg by libsndfile, in pieces, so that no file can grow beyond the
worker's limit. What is a limit and what a model takes are told by the caller.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.catalog.preprocessing import SoundProcessing
from shoal.errors import InvalidItem
from shoal.tasks.sound import log_mel, resampled
from shoal.worker.media.wav import is_wav, read_wav

Samples = NDArray[np.float32]
#: Told of a sound's seconds, as its header has them, before it is decoded; may refuse it.
Told = Callable[[float], None]

#: What libsndfile is let read of what it knows.
_FORMATS = ("FLAC", "MP3", "OGG")
#: Rates outside are no recordings, and would only make a small file large, or a filter long.
_RATES = range(1000, 192_001)
#: Samples are held at the rate that they were recorded at, 350 MB for half an hour of this one: above it
#: fewer seconds are taken, or a megabyte of silence as FLAC would need gigabytes.
_FULL_RATE = 48_000
#: Floats go from -1 to 1, and are taken up to what whole numbers of 32 bits have, if somebody forgot to scale
#: them; squares of much larger ones are infinite in a spectrogram.
_LOUDEST = 2.0**31
#: Samples decoded at a time.
_PIECE = 1 << 18


def read_sound(data: bytes, rate: int, max_s: float, told: Told = lambda seconds: None) -> Samples:
    """The sound in a file as one channel at this rate, [n].

    Raises:
        InvalidItem: no sound of a known format, damaged or cut off, longer, empty, not finite or of
            no recording's size.
    """
    samples, stored_rate = (_wav if is_wav(data) else _coded)(data, max_s, told)
    if not len(samples):
        raise InvalidItem("this sound has no samples")
    if not np.isfinite(samples).all():
        raise InvalidItem("this sound has samples that are NaN or infinite")
    if (loudest := max(samples.max(), -samples.min())) > _LOUDEST:
        raise InvalidItem(f"this sound has samples of {loudest:.3g}; scale them to -1 to 1")
    return resampled(samples, stored_rate, rate)


def spectrogram(samples: Samples, processing: SoundProcessing) -> Samples:
    """[bins, frames] of at most as much sound as a sequence may have."""
    limit = processing.chunk_samples
    return log_mel(
        samples[:limit],
        processing.feature_size,
        processing.sampling_rate,
        processing.n_fft,
        processing.hop_length,
        limit,
    )


def _wav(data: bytes, max_s: float, told: Told) -> tuple[Samples, int]:
    wav = read_wav(data)
    _check(wav.frames, wav.rate, max_s)
    told(wav.frames / wav.rate)
    return wav.mono(), wav.rate


def _coded(data: bytes, max_s: float, told: Told) -> tuple[Samples, int]:
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.format not in _FORMATS:
                raise _unknown()
            _check(max(0, file.frames), file.samplerate, max_s)
            told(file.frames / file.samplerate)
            most = int(max_s * min(file.samplerate, _FULL_RATE)) + 1
            return _mono(file, most, max_s), file.samplerate
    except soundfile.SoundFileError as error:
        if not _looks_coded(data):
            raise _unknown() from None
        # Its whole message names the object that is read, at its place in memory.
        why = getattr(error, "error_string", "it cannot be read")
        raise InvalidItem(f"this sound is damaged or cut off: {why}") from None


def _mono(file: Any, most: int, max_s: float) -> Samples:
    """All of a file. What it says of its length is a guess (MP3) or a lie, so that is checked too."""
    pieces: list[Samples] = []
    have = 0
    step = max(1, _PIECE // file.channels)
    while len(piece := file.read(step, dtype="float32", always_2d=True)):
        pieces.append(piece.mean(1))
        have += len(piece)
        if have > most:
            _check(have, file.samplerate, max_s)
    told = file.frames
    if file.format == "FLAC" and have < told:
        raise InvalidItem(f"this sound is cut off: it tells of {told} samples and has {have}")
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def _check(frames: int, rate: int, max_s: float) -> None:
    if rate not in _RATES:
        raise InvalidItem(
            f"this sound has {rate} samples a second; read are {_RATES[0]} to {_RATES[-1]}"
        )
    most_s = max_s * min(1.0, _FULL_RATE / rate)
    if frames > most_s * rate:
        raise InvalidItem(
            f"this sound lasts {frames / rate:.1f} s, and at most {most_s:g} s are taken at {rate} "
            "samples a second (`media_seconds` of the worker); send it in parts"
        )


def _looks_coded(data: bytes) -> bool:
    """Whether it begins as FLAC, Ogg, or MP3 with or without a tag does."""
    return (
        data[:4] in (b"fLaC", b"OggS")
        or data[:3] == b"ID3"
        or (len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0)
    )


def _unknown() -> InvalidItem:
    return InvalidItem(
        f"this item is no sound that can be read; these can: WAV, {', '.join(_FORMATS)}"
    )

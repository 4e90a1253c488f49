"""Sound files as people send them, against the tone that is in them."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
import soundfile
from transformers import WhisperFeatureExtractor

from shoal.catalog.preprocessing import SoundProcessing
from shoal.errors import InvalidItem
from shoal.worker.media.sound import Samples, read_sound, spectrogram

Extractor: Any = WhisperFeatureExtractor
MOST_S = 4.0


def tone(rate: int, seconds: float = 0.5, hertz: float = 440.0) -> Samples:
    at = np.arange(int(rate * seconds)) / rate
    return (0.5 * np.sin(2 * np.pi * hertz * at)).astype(np.float32)


def saved(samples: Any, rate: int, kind: str, coding: str | None = None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, subtype=coding)
    return file.getvalue()


def off(ours: Samples, expected: Samples) -> float:
    """The largest error, but for the ends, which hear the silence beside the sound."""
    assert abs(len(ours) - len(expected)) <= 1
    count = min(len(ours), len(expected)) - 300
    return float(np.abs(ours[300:count] - expected[300:count]).max())


@pytest.mark.parametrize("kind", ["WAV", "WAVEX"])
@pytest.mark.parametrize(
    ("coding", "error"),
    [
        ("PCM_U8", 9e-3),
        ("PCM_16", 4e-5),
        ("PCM_24", 2e-7),
        ("PCM_32", 2e-7),
        ("FLOAT", 1e-9),
        ("DOUBLE", 1e-9),
    ],
)
def test_wav_of_every_kind(kind: str, coding: str, error: float) -> None:
    ours = read_sound(saved(tone(16000), 16000, kind, coding), 16000, MOST_S)
    assert ours.dtype == np.float32
    assert np.abs(ours - tone(16000)).max() < error


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000])
@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_any_rate_and_format(rate: int, kind: str) -> None:
    ours = read_sound(saved(tone(rate), rate, kind), 16000, MOST_S)
    if kind == "MP3":  # some thousand samples of silence come before and after
        spectrum = np.abs(np.fft.rfft(ours[1000:7000] * np.hanning(6000)))
        assert abs(spectrum.argmax() * 16000 / 6000 - 440) < 3
        assert 0.45 < np.abs(ours[1000:7000]).max() < 0.55
    else:
        assert off(ours, tone(16000)) < (0.03 if kind == "OGG" else 1e-3)


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
def test_channels_become_their_mean(kind: str) -> None:
    both = np.stack([tone(16000), np.zeros(8000, np.float32)], 1)
    ours = read_sound(saved(both, 16000, kind, "PCM_16"), 16000, MOST_S)
    assert np.abs(ours - tone(16000) / 2).max() < 4e-5


def test_a_wav_from_a_pipe_has_no_length() -> None:
    data = bytearray(saved(tone(16000), 16000, "WAV", "PCM_16"))
    at = data.index(b"data") + 4
    for told in (0, 0xFFFFFFFF):
        data[at : at + 4] = struct.pack("<I", told)
        assert len(read_sound(bytes(data), 16000, MOST_S)) == 8000


def test_other_chunks_are_passed_over() -> None:
    data = saved(tone(16000), 16000, "WAV", "PCM_16")
    at = data.index(b"data")
    noted = data[:at] + b"LIST" + struct.pack("<I", 5) + b"hello\0" + data[at:]
    np.testing.assert_array_equal(read_sound(noted, 16000, MOST_S), read_sound(data, 16000, MOST_S))


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
@pytest.mark.parametrize("left", [0.5, 0.95])
def test_what_is_cut_off_is_refused(kind: str, left: float) -> None:
    data = saved(np.random.default_rng(0).normal(size=20000) / 9, 16000, kind, "PCM_16")
    with pytest.raises(InvalidItem, match="cut off"):
        read_sound(data[: int(len(data) * left)], 16000, MOST_S)


@pytest.mark.parametrize("data", [b"", b"hello", b"RIFF", b"\0" * 400, b"RIFF\0\0\0\0WAVE"])
def test_what_is_no_sound_is_refused(data: bytes) -> None:
    with pytest.raises(
        InvalidItem, match=r"no sound that can be read; these can: WAV, FLAC|no format"
    ):
        read_sound(data, 16000, MOST_S)


def test_a_format_that_nobody_asked_for_is_no_sound() -> None:
    with pytest.raises(InvalidItem, match="no sound that can be read"):
        read_sound(saved(tone(16000), 16000, "AIFF"), 16000, MOST_S)


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_longer_than_the_limit_is_refused(kind: str) -> None:
    assert len(read_sound(saved(tone(8000, 3.9), 8000, kind), 16000, MOST_S))
    with pytest.raises(InvalidItem, match=r"lasts 4\.\d s, and at most 4 s .*`media_seconds`"):
        read_sound(saved(tone(8000, 4.5), 8000, kind), 16000, MOST_S)


def test_of_very_high_rates_fewer_seconds_are_taken() -> None:
    """Samples are held at the rate of the file: a megabyte of silence would be gigabytes."""
    silence = saved(np.zeros(192_000), 192_000, "FLAC")
    assert len(read_sound(silence, 16_000, 4.0)) == 16_000
    with pytest.raises(InvalidItem, match=r"lasts 1.0 s, and at most 0.5 s are taken at 192000"):
        read_sound(silence, 16_000, 2.0)


def test_a_wav_of_strange_numbers_is_refused() -> None:
    data = bytearray(saved(tone(16000), 16000, "WAV", "PCM_16"))
    format_at = data.index(b"fmt ") + 8
    for place, value, why in (
        (0, 6, r"format 6"),
        (2, 0, r"0 channels"),
        (4, 7, r"7 samples a second; read are 1000"),
        (14, 12, r"of 12 bits"),
    ):
        bad = bytearray(data)
        bad[format_at + place : format_at + place + 2] = struct.pack("<H", value)
        with pytest.raises(InvalidItem, match=why):
            read_sound(bytes(bad), 16000, MOST_S)


@pytest.mark.parametrize("loud", [1e20, -3e38])
def test_samples_of_no_recordings_size_are_refused(loud: float) -> None:
    """Their spectrogram has infinity, of which a model makes nothing, after seconds."""
    with pytest.raises(InvalidItem, match="scale them to -1 to 1"):
        read_sound(saved(np.full(100, loud, np.float32), 16000, "WAV", "FLOAT"), 16000, MOST_S)
    unscaled = np.full(100, 32_768, np.float32)
    assert read_sound(saved(unscaled, 16000, "WAV", "FLOAT"), 16000, MOST_S).max() == 32_768


def test_nothing_and_infinity_are_refused() -> None:
    with pytest.raises(InvalidItem, match="no samples"):
        read_sound(saved(np.zeros(0), 16000, "WAV"), 16000, MOST_S)
    loud = np.array([0.0, np.inf, np.nan], np.float32)
    with pytest.raises(InvalidItem, match="NaN or infinite"):
        read_sound(saved(loud, 16000, "WAV", "FLOAT"), 16000, MOST_S)


def test_what_is_wrong_with_a_file_is_told_without_our_own_objects() -> None:
    with pytest.raises(InvalidItem, match="damaged or cut off: File contains data in an"):
        read_sound(b"fLaC" + bytes(100), 16000, MOST_S)


def test_noise_in_a_file_harms_nobody() -> None:
    rng = np.random.default_rng(1)
    for kind in ("WAV", "FLAC", "OGG", "MP3"):
        whole = saved(tone(16000, 0.1), 16000, kind)
        for _ in range(40):
            bad = bytearray(whole)
            for at in rng.integers(0, min(len(bad), 200), 4):
                bad[at] = rng.integers(0, 256)
            try:
                read_sound(bytes(bad), 16000, MOST_S)
            except InvalidItem:
                continue


def test_spectrograms_have_at_most_a_window() -> None:
    samples = np.random.default_rng(3).normal(size=35 * 16000).astype(np.float32) / 9
    ours = spectrogram(np.asarray(samples, np.float32), SoundProcessing())
    theirs = Extractor()(samples, sampling_rate=16000)["input_features"][0]
    assert ours.shape == (80, 3000)
    np.testing.assert_allclose(ours, theirs, atol=2e-4)

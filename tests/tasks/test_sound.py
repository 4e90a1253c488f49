"""Resampling against tones that are known; spectrograms against transformers' own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import transformers
from scipy.signal import resample_poly  # type: ignore[import-untyped]

from shoal.tasks.sound import Samples, log_mel, mel_filters, resampled, silence, windows

Extractor: Any = transformers.WhisperFeatureExtractor
RATES = [8000, 11025, 11999, 12000, 22050, 24000, 32000, 44100, 48000, 96000]


def tone(hertz: float, rate: int, seconds: float = 1.0) -> Samples:
    at = np.arange(int(rate * seconds)) / rate
    return (0.5 * np.sin(2 * np.pi * hertz * at)).astype(np.float32)


def decibels(left: Any, right: Any) -> float:
    return float(20 * np.log10(np.sqrt(np.mean((left - right) ** 2)) / np.sqrt(np.mean(right**2))))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("share", [0.01, 0.3, 0.85])
def test_a_tone_stays_what_it_is(rate: int, share: float) -> None:
    hertz = share * min(rate, 16000) / 2
    ours = resampled(tone(hertz, rate), rate, 16000)
    assert len(ours) == 16000
    # The ends hear the silence beside the sound.
    assert decibels(ours[400:-400], tone(hertz, 16000)[400:-400]) < -60


@pytest.mark.parametrize("rate", [22050, 44100, 48000, 96000])
def test_what_the_new_rate_cannot_hold_is_gone(rate: int) -> None:
    high = resampled(tone(9000, rate), rate, 16000)
    assert np.abs(high[400:-400]).max() < 0.5e-4


def test_noise_is_near_what_scipy_makes_of_it() -> None:
    noise = np.random.default_rng(0).normal(size=44100).astype(np.float32)
    smooth = np.convolve(noise, np.hanning(21) / 10, "same").astype(np.float32)
    theirs = resample_poly(smooth, 160, 441, window=("kaiser", 10.0))
    ours = resampled(smooth, 44100, 16000)
    assert ours.shape == theirs.shape
    assert decibels(ours[400:-400], theirs[400:-400]) < -50


@pytest.mark.parametrize("count", [0, 1, 2, 439, 44101])
def test_any_number_of_samples_has_its_length(count: int) -> None:
    ours = resampled(np.ones(count, np.float32), 44100, 16000)
    assert len(ours) == -(-count * 160 // 441)
    assert ours.dtype == np.float32


def test_mel_filters_are_those_of_transformers() -> None:
    for bins in (80, 128):
        theirs = Extractor(feature_size=bins).mel_filters
        np.testing.assert_allclose(mel_filters(bins, 16000, 400), theirs, atol=1e-7)


def speech(seconds: float, seed: int = 2) -> Samples:
    """Noise that swells and tones that glide, about as loud as somebody who speaks."""
    rng = np.random.default_rng(seed)
    at = np.arange(int(16000 * seconds)) / 16000
    glide = np.sin(2 * np.pi * (200 * at + 90 * np.sin(3 * at)))
    voice = 0.1 * (glide + 0.3 * rng.normal(size=len(at))) * np.sin(4 * at) ** 2
    return np.asarray(voice, np.float32)


@pytest.mark.parametrize("seconds", [0.01, 0.3, 1.0, 7.77, 29.99, 30.0])
@pytest.mark.parametrize("bins", [80, 128])
def test_spectrograms_are_those_of_transformers(seconds: float, bins: int) -> None:
    samples = speech(seconds)
    theirs = Extractor(feature_size=bins)(samples, sampling_rate=16000)
    expected = np.asarray(theirs["input_features"][0], np.float32)
    ours = log_mel(samples, bins, 16000, 400, 160, 480_000)
    whole = np.full((bins, 3000), silence(ours), np.float32)
    whole[:, : ours.shape[1]] = ours
    assert ours.shape[1] <= min(3000, 100 * seconds + 4)
    np.testing.assert_allclose(whole, expected, atol=2e-4)
    flat, other = whole.astype(float).ravel(), expected.astype(float).ravel()
    assert flat @ other / np.sqrt((flat @ flat) * (other @ other)) > 0.9999999


def test_silence_is_told_as_silence() -> None:
    samples = np.zeros(16000, np.float32)
    theirs = Extractor()(samples, sampling_rate=16000)["input_features"][0]
    ours = log_mel(samples, 80, 16000, 400, 160, 480_000)
    np.testing.assert_allclose(ours, np.asarray(theirs)[:, : ours.shape[1]], atol=1e-6)
    assert silence(ours) == pytest.approx(float(np.asarray(theirs)[0, -1]))


def test_windows_are_cut_in_pauses() -> None:
    samples = speech(70)
    samples[27 * 16000 : 27 * 16000 + 8000] = 0
    samples[53 * 16000 : 53 * 16000 + 8000] *= 1e-3
    parts = windows(samples, 480_000, 16000)
    np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), samples)
    assert all(len(part) <= 480_000 for _, part in parts)
    assert parts[0][0] == 0
    assert 27 * 16000 < parts[1][0] < 27 * 16000 + 8000
    assert 53 * 16000 < parts[2][0] < 53 * 16000 + 8000
    for (start, part), (following, _) in pairwise(parts):
        assert start + len(part) == following


@pytest.mark.parametrize("count", [0, 5, 480_000, 480_001])
def test_windows_of_little_and_of_a_flat_sound(count: int) -> None:
    parts = windows(np.ones(count, np.float32), 480_000, 16000)
    assert sum(len(part) for _, part in parts) == count
    assert len(parts) == 1 + (count > 480_000)

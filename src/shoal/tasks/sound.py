"""Sound as numbers: resampling, and the log-mel spectrograms that speech models take. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from math import ceil, gcd, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

#: Zero crossings of the filter on each side, and the shape of its window: what lies above the new
#: rate is 100 dB down, and a tone below 0.9 of the highest keeps its level within 0.01 dB.
_CROSSINGS, _BETA = 48, 10.0
#: Where the filter lets half through, as a share of the highest frequency that both rates have.
_CUTOFF = 0.95
#: Outputs that one product computes. What they hear differs, so it has zeros in it: of 32, 64 and
#: 128 this is the fastest from 44,100 and 48,000 Hz, 1 ms a second of sound.
_TOGETHER = 32
#: Samples that are computed at a time: they bound what is held besides the sound itself.
_CHUNK = 1 << 19

#: A mel bin of less power than this counts as having so much.
_LEAST_POWER = 1e-10
#: Powers of ten between the loudest bin of a sound and what is told of its quietest.
_RANGE = 8.0


def resampled(samples: Samples, rate: int, new_rate: int) -> Samples:
    """The same sound at another rate: [n] -> [ceil(n * new_rate / rate)].

    A polyphase filter, a sinc under a Kaiser window, as in `scipy.signal.resample_poly`; what is
    before and after the sound counts as silence.
    """
    if rate == new_rate or not len(samples):
        return samples
    shared = gcd(rate, new_rate)
    # So many outputs after so many samples the filters repeat.
    repeats = -(-_TOGETHER * shared // new_rate)
    up, down = repeats * new_rate // shared, repeats * rate // shared
    count = -(-len(samples) * new_rate // rate)
    filters = _filters(up, down)
    rounds = -(-count // up)
    width = max(first + len(taps) for first, taps in filters)
    margin = _half(up, down)
    padded = np.pad(samples, (margin, max(0, rounds * down + width - margin - len(samples))))
    out = np.empty((rounds, up), np.float32)
    for number, (first, taps) in enumerate(filters):
        windows = np.lib.stride_tricks.sliding_window_view(padded[first:], len(taps))[::down]
        mine = out[:, number * _TOGETHER : (number + 1) * _TOGETHER]
        step = max(1, _CHUNK // len(taps))
        for start in range(0, rounds, step):
            stop = min(rounds, start + step)
            mine[start:stop] = np.ascontiguousarray(windows[start:stop]) @ taps
    return out.reshape(-1)[:count]


def _half(up: int, down: int) -> int:
    """Samples that a filter reaches to each side."""
    return ceil(_CROSSINGS * max(1.0, down / up) / _CUTOFF)


@lru_cache(8)  # an odd rate has filters of 30 MB
def _filters(up: int, down: int) -> list[tuple[int, Samples]]:
    """For each `_TOGETHER` outputs in a row: the first sample they hear, and [samples, outputs]."""
    width, half = max(1.0, down / up) / _CUTOFF, _half(up, down)
    found = []
    for start in range(0, up, _TOGETHER):
        # Where outputs lie among the samples, and the samples that some of them hears.
        outputs = np.arange(start, min(up, start + _TOGETHER)) * down / up
        first = int(outputs[0])
        heard = np.arange(first - half, int(outputs[-1]) + half + 2)
        away = heard[:, None] - outputs
        inside = np.clip(1 - (away / (half + 1)) ** 2, 0, None)
        taps = np.sinc(away / width) * np.i0(_BETA * np.sqrt(inside)) * (inside > 0)
        found.append((first, (taps / taps.sum(0)).astype(np.float32)))
    return found


#: A window ends where this long is quietest ...
_PAUSE_S = 0.2
#: ... in so much of its end.
_SEARCHED_S = 6.0


def windows(samples: Samples, limit: int, rate: int) -> list[tuple[int, Samples]]:
    """A sound in parts of at most `limit` samples, each with where it starts; cut in pauses."""
    parts = []
    start = 0
    while len(samples) - start > limit:
        stop = start + limit
        stop -= min(limit // 2, _from_pause(samples[start:stop], rate))
        parts.append((start, samples[start:stop]))
        start = stop
    return [*parts, (start, samples[start:])]


def _from_pause(samples: Samples, rate: int) -> int:
    """How far from the end of these samples the middle of their quietest moment is."""
    pause = int(_PAUSE_S * rate)
    searched = samples[-int(_SEARCHED_S * rate) :].astype(np.float64) ** 2
    if len(searched) <= pause:
        return 0
    sums = np.concatenate([[0.0], np.cumsum(searched)])
    quietest = int((sums[pause:] - sums[:-pause]).argmin())
    return len(searched) - (quietest + pause // 2)


def log_mel(samples: Samples, bins: int, rate: int, window: int, hop: int, limit: int) -> Samples:
    """The spectrogram of a sound that is followed by silence: [bins, frames] float32.

    samples: [n], n at most `limit`. There are as many frames as hear something of the sound; all
    further ones of a sequence hold `silence`. Reference: `WhisperFeatureExtractor`.
    """
    heard = min(limit, -(-(len(samples) + window) // hop) * hop)
    padded = np.pad(np.pad(samples, (0, heard - len(samples))), window // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[: heard + 1 : hop][:-1]
    shape = _hann(window)
    parts = [
        np.log10(np.maximum(_powers(part, shape) @ mel_filters(bins, rate, window), _LEAST_POWER))
        for part in _chunks(frames)
    ]
    logs = np.concatenate(parts).T
    floor = logs.max() - _RANGE
    return np.ascontiguousarray((np.maximum(logs, floor) + 4) / 4, np.float32)


def silence(spectrogram: NDArray[Any]) -> float:
    """What a frame of silence holds beside this spectrogram: its floor."""
    return max(float(spectrogram.max()) - _RANGE / 4, (log10(_LEAST_POWER) + 4) / 4)


def _chunks(frames: Samples) -> Iterator[Samples]:
    step = max(1, _CHUNK // frames.shape[1])
    for start in range(0, len(frames), step):
        yield frames[start : start + step]


def _powers(frames: Samples, shape: Samples) -> Samples:
    spectrum = np.fft.rfft(frames * shape, axis=1)
    return np.asarray(spectrum.real**2 + spectrum.imag**2, np.float32)


@cache
def _hann(window: int) -> Samples:
    """Periodic, as for a Fourier transform."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)).astype(np.float32)


@cache
def mel_filters(bins: int, rate: int, window: int) -> Samples:
    """[window // 2 + 1, bins]: triangles of equal area on Slaney's mel scale, up to half the rate.

    Reference: `librosa.filters.mel`; Slaney, Auditory Toolbox (1998).
    """
    edges = _hertz(np.linspace(0.0, _mels(rate / 2), bins + 2))
    heights = 2.0 / (edges[2:] - edges[:-2])
    frequencies = np.linspace(0.0, rate / 2, window // 2 + 1)[:, None]
    rising = (frequencies - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - frequencies) / np.diff(edges)[1:]
    return (np.clip(np.minimum(rising, falling), 0, None) * heights).astype(np.float32)


# Slaney's scale is straight up to 1,000 Hz (15 mels) and logarithmic above: 27 mels a factor 6.4.
_STRAIGHT_HZ, _STRAIGHT_MELS = 1000.0, 15.0
_STEP = np.log(6.4) / 27.0


def _mels(hertz: float) -> float:
    if hertz < _STRAIGHT_HZ:
        return hertz * _STRAIGHT_MELS / _STRAIGHT_HZ
    return float(_STRAIGHT_MELS + np.log(hertz / _STRAIGHT_HZ) / _STEP)


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    straight = mels * _STRAIGHT_HZ / _STRAIGHT_MELS
    curved = _STRAIGHT_HZ * np.exp(_STEP * (mels - _STRAIGHT_MELS))
    return np.where(mels < _STRAIGHT_MELS, straight, curved)

"""WAV files: whole numbers of 8 to 32 bits and floats, any rate and number of channels.

Their own reader, so that the commonest sound needs no library. Format: Microsoft and IBM,
Multimedia Programming Interface and Data Specifications 1.0 (1991), and `WAVEFORMATEXTENSIBLE`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import InvalidItem

Samples = NDArray[np.float32]

#: Kinds of samples; the last says its kind in a longer header.
_WHOLE, _FLOAT, _EXTENDED = 1, 3, 0xFFFE
#: Sizes that a program writes which cannot go back to fill them in (ffmpeg into a pipe).
_UNTOLD = (0, 0xFFFFFFFF)


class Wav(msgspec.Struct, frozen=True):
    """A file's sound: `data` as it is stored, `kind` and `bits` of a sample."""

    rate: int
    channels: int
    kind: int
    bits: int
    data: memoryview

    @property
    def frames(self) -> int:
        return len(self.data) // (self.channels * self.bits // 8)

    def mono(self) -> Samples:
        """The mean of all channels, [frames], from -1 to 1."""
        whole = self.data[: self.frames * self.channels * self.bits // 8]
        samples = _numbers(whole, self.kind, self.bits).reshape(-1, self.channels)
        return np.asarray(samples.mean(1), np.float32)


def is_wav(data: bytes) -> bool:
    """Whether this is meant as one."""
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"


def read_wav(data: bytes) -> Wav:
    """The sound in a file.

    Raises:
        InvalidItem: cut off, or of a kind that is not read.
    """
    chunks = {chunk.name: chunk for chunk in _chunks(memoryview(data))}
    header, sound = chunks.get(b"fmt "), chunks.get(b"data")
    if header is None or len(header.body) < 16 or sound is None:
        raise InvalidItem("this WAV file is damaged or cut off: it has no format or no sound")
    if sound.told not in _UNTOLD and sound.told > len(sound.body):
        raise InvalidItem(
            f"this WAV file is cut off: it tells of {sound.told} bytes of sound and has "
            f"{len(sound.body)}"
        )
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", header.body)
    if kind == _EXTENDED and len(header.body) >= 26:
        (kind,) = struct.unpack_from("<H", header.body, 24)
    if not channels or not rate or (kind, bits) not in _READ:
        raise InvalidItem(
            f"this WAV file has {channels} channels of {bits} bits (format {kind}) at {rate} Hz; "
            "read are whole numbers of 8, 16, 24 and 32 bits and floats of 32 and 64"
        )
    return Wav(rate, channels, kind, bits, sound.body)


#: Kind and bits of what can be read, and its type; 24 bits have none.
_READ: dict[tuple[int, int], str] = {
    (_WHOLE, 8): "u1",
    (_WHOLE, 16): "<i2",
    (_WHOLE, 24): "",
    (_WHOLE, 32): "<i4",
    (_FLOAT, 32): "<f4",
    (_FLOAT, 64): "<f8",
}


class _Chunk(NamedTuple):
    """`told`: bytes that it says it has; `body`: those that are there, of these at most."""

    name: bytes
    told: int
    body: memoryview


def _chunks(data: memoryview) -> Iterator[_Chunk]:
    at = 12
    while at + 8 <= len(data):
        name, told = struct.unpack_from("<4sI", data, at)
        rest = data[at + 8 :]
        yield _Chunk(name, told, rest if name == b"data" and told in _UNTOLD else rest[:told])
        at += 8 + told + told % 2


def _numbers(data: memoryview, kind: int, bits: int) -> Samples:
    if (kind, bits) == (_WHOLE, 24):
        # Three bytes in the upper part of four: the sign is where it belongs.
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / 2.0**31).astype(np.float32)
    stored = np.frombuffer(data, _READ[kind, bits])
    if kind == _FLOAT:
        return stored.astype(np.float32)
    middle = 128 if bits == 8 else 0
    return ((stored - np.float64(middle)) / 2.0 ** (bits - 1)).astype(np.float32)

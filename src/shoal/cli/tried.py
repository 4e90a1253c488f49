"""A model of the catalog, or a folder of one's own, as something that a runtime is tried with.

Its items are prepared as a worker does, so that the runtime gets what it would get from one.
"""

from __future__ import annotations

import io
import math
import wave
from pathlib import Path

import msgspec
import numpy as np

from shoal.catalog.card import Card, Profile
from shoal.errors import ConfigError, ShoalError
from shoal.runtimes.check.sample import Sample
from shoal.settings import WorkerSettings
from shoal.tasks.encode import Item, Media
from shoal.values import EncodeParams
from shoal.worker.batches import packed
from shoal.worker.models import heads_of, load_of, loaded_of, preparer_of

_TEXTS = ("A fish swims.", "Bread is made of flour, water and salt.", "Rain.", "A fish swims.")
#: Ids that any vocabulary has.
_PROMPTS = ((5, 6, 7), (8,), (9, 10, 11, 12))
_RATE_HZ = 16_000
_TONES_HZ = (220, 440, 330)
_SIDE = 96


def profile_for(card: Card, kind: str) -> Profile:
    """The card's first profile for this kind of runtime, or an empty one."""
    own = [profile for profile in card.profiles.values() if profile.runtime == kind]
    return own[0] if own else msgspec.structs.replace(Profile(), runtime=kind)


def sample_of(
    card: Card, folder: Path, profile: Profile, inputs: str, settings: WorkerSettings
) -> Sample:
    """A sample of this model, whose files are in `folder`. `inputs`: what the runtime takes.

    Raises `ConfigError` where none of its items can be made, and as `preparer_of` and `loaded_of`.
    """
    heads = [name for name in heads_of(card) if name != "generate"]
    load = load_of(card, loaded_of(card, folder, profile, settings), profile)
    prompts = _PROMPTS if load.sequences else ()
    if not heads:
        return Sample(load, prompts=prompts)
    preparer = preparer_of(card, folder, profile, inputs, settings)
    made = preparer.prepare(_items(card), EncodeParams())
    for item in made:
        if isinstance(item, ShoalError):
            raise ConfigError(f"'{card.name}' takes no item that can be made here: {item.message}")
    items = [
        packed(0, "", heads, [item.sequences[0]])
        for item in made
        if not isinstance(item, ShoalError)
    ]
    return Sample(load, items, prompts=prompts)


def _items(card: Card) -> list[Item]:
    if "text" in card.inputs:
        return list(_TEXTS)
    if "image" in card.inputs:
        return [Media(_picture(seed)) for seed in range(len(_TEXTS))]
    return [Media(_sound(hertz)) for hertz in _TONES_HZ]


def _picture(seed: int) -> bytes:
    """Dark bars on white, as a file."""
    from PIL import Image

    pixels = np.full((_SIDE, _SIDE, 3), 255, np.uint8)
    for top in np.random.default_rng(seed).integers(0, _SIDE - 8, 3):
        pixels[top : top + 6, 8:-8] = 20 * seed
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def _sound(hertz: int) -> bytes:
    """A second of a tone, as a file."""
    at = np.arange(_RATE_HZ) * (2 * math.pi * hertz / _RATE_HZ)
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(_RATE_HZ)
        writer.writeframes((np.sin(at) * 20_000).astype("<i2").tobytes())
    return file.getvalue()

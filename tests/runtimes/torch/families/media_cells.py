"""The families of images and sound: their cells of the table in docs/models.md.

Each is a function from an empty folder to the largest error of an item, alone and in batches that
take several passes; their variants and edges have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import ViTConfig, ViTForImageClassification, ViTModel

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.outputs import read_outputs
from shoal.wire.socket import Load
from tests.runtimes.torch import efficientnet, media, pages, speech, towers, vision
from tests.runtimes.torch.families.cells import COSINE, IDS, LABELS, Floats, Measure

#: Of each distinct item, so that batches take several passes.
_REPEATS = 40


def _worst(load: Load, items: Sequence[media.Item], head: str, theirs: Any, by: Measure) -> float:
    """Ours against `theirs`, a row an item, of items alone and of all, repeated, in one batch."""
    runtime = TorchRuntime()
    runtime.load(load)
    expected = [np.asarray(row) for row in theirs]
    batches = [[number] for number in range(len(items))]
    batches.append(list(range(len(items))) * _REPEATS)
    return max(
        by.error(ours, expected[number])
        for batch in batches
        for number, ours in zip(
            batch, _answers(runtime, [items[n] for n in batch], head), strict=True
        )
    )


def _answers(runtime: TorchRuntime, items: list[media.Item], head: str) -> Iterator[Floats]:
    done = media.run(runtime, items, head)
    assert not done.failed, done.failed
    output = read_outputs(done.arrays, done.lengths, done.indices, len(items))[head]
    return (np.asarray(row) for row in output.rows())


def _vit_dense(folder: Path) -> float:
    model = media.save(folder, ViTModel(ViTConfig(**vision.SHAPE), add_pooling_layer=False))
    items = media.images(5)
    return _worst(vision.load(folder), items, "dense", vision.hidden(model, items)[:, 0], COSINE)


def _vit_labels(folder: Path) -> float:
    config = ViTConfig(**(vision.SHAPE | {"num_labels": 7}))
    model = media.save(folder, ViTForImageClassification(config))
    items = media.images(5)
    with torch.inference_mode():
        theirs = model(pixel_values=media.pixel_values(items)).logits
    load = vision.load(folder, heads={"extract": {"head": "image-labels"}})
    return _worst(load, items, "extract", theirs, LABELS)


def _efficientnet(output: str) -> Callable[[Path], float]:
    def worst(folder: Path) -> float:
        model = efficientnet.save(folder)
        items = media.images(3, efficientnet.SIZE)
        labels, vectors = efficientnet.reference(model, items)
        load = efficientnet.load(folder)
        if output == "dense":
            return _worst(load, items, output, vectors, COSINE)
        return _worst(load, items, output, labels, LABELS)

    return worst


def _features(make: Callable[[Path], Any]) -> Callable[[Path], float]:
    def worst(folder: Path) -> float:
        model = make(folder)
        words, pictures = towers.texts(), media.images(4)
        theirs = [*towers.text_features(model, words), *towers.image_features(model, pictures)]
        load = towers.load(folder, make.__name__)
        return _worst(load, [*words, *pictures], "dense", theirs, COSINE)

    return worst


def _similarity(make: Callable[[Path], Any]) -> Callable[[Path], float]:
    """Products of the rows of images and of texts are the model's logits."""

    def worst(folder: Path) -> float:
        model = make(folder)
        words, pictures = towers.texts(3), media.images(4)
        runtime = TorchRuntime()
        runtime.load(towers.load(folder, make.__name__))
        rows = np.stack(list(_answers(runtime, [*words, *pictures], "extract")))
        theirs = towers.logits(model, words, pictures)
        return LABELS.error(rows[3:] @ rows[:3].T, np.asarray(theirs))

    return worst


def _page_vectors(
    make: Callable[[Path], Any], drawn: Callable[[], list[media.Item]]
) -> Callable[[Path], float]:
    """Of texts and of pages, in one batch."""

    def worst(folder: Path) -> float:
        model = make(folder)
        items = [*pages.texts(), *drawn()]
        load = pages.load(folder, make.__name__)
        return _worst(load, items, "multivector", pages.vectors(model, items), COSINE)

    return worst


def _whisper_dense(folder: Path) -> float:
    model = speech.save(folder, several=True)
    items = speech.clips(5)
    theirs = speech.hidden(model, items).mean(1)
    return _worst(speech.load(folder), items, "dense", theirs, COSINE)


def _transcript(folder: Path) -> float:
    model = speech.save(folder, several=False)
    items = speech.clips(9)
    theirs = speech.reference(model, items, return_timestamps=True)
    runtime = TorchRuntime()
    runtime.load(speech.load(folder))
    alone = [speech.texts(speech.heard(runtime, [item]))[0] for item in items]
    together = speech.texts(speech.heard(runtime, items * _REPEATS))
    pairs = zip(alone + together, theirs * (1 + _REPEATS), strict=True)
    return max(IDS.error(np.array(ours), np.array(text)) for ours, text in pairs)


#: Heads that only these families have.
MEASURES: dict[str, Measure] = {"image-labels": LABELS, "image-text": LABELS, "transcript": IDS}

MEDIA: dict[str, dict[str, Callable[[Path], float]]] = {
    "vit": {"dense": _vit_dense, "image-labels": _vit_labels},
    "efficientnet": {
        "dense": _efficientnet("dense"),
        "image-labels": _efficientnet("extract"),
    },
    "clip": {"dense": _features(towers.clip), "image-text": _similarity(towers.clip)},
    "siglip": {"dense": _features(towers.siglip), "image-text": _similarity(towers.siglip)},
    "colpali": {"colbert": _page_vectors(pages.colpali, pages.pages)},
    "colmodernvbert": {"colbert": _page_vectors(pages.colmodernvbert, pages.tiled)},
    "whisper": {"dense": _whisper_dense, "transcript": _transcript},
}

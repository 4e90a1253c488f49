"""What both sides are given: texts, pairs, pictures and clips, as the worker prepares them."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from shoal.bench.quality.sentences import sentences
from shoal.bench.quality.speech import clips
from shoal.bench.texts import text
from shoal.catalog.card import Card, Profile
from shoal.settings import WorkerSettings
from shoal.tasks.encode import Item, Media
from shoal.values import EncodeParams, ExtractParams, GenerateParams, Params, ScoreParams
from shoal.worker.models import heads_of, preparer_of
from shoal.worker.prepared import Prepared
from shoal.worker.text import QUERY

#: What no sentence has: one token, code, digits, another script, signs.
_ODD = ("a", "def f(x): return x ** 2", "3.14159 and 2,718,281", "Привет, 世界!", "AT&T's #1 @home")
#: From good answers to none, by documents that name what is asked.
_QUERIES = {
    "what is the capital of france": "Paris is the capital of France.",
    "how long may a notice be": "A notice of termination must be given four weeks ahead.",
    "wo wohnt der schäfer": "Der Schäfer wohnt in der Lindenstraße 14 in Görlitz.",
}
_LONGEST = 120
#: Of pictures, from one colour in each corner to noise in each pixel.
_GRAINS = (2, 5, 16, 60, 300)
_PIXELS = 300


class Sample(msgspec.Struct, frozen=True):
    """An item as it would be sent, and what a runtime sees of it: token ids, or an array."""

    item: Item
    sequence: Prepared


def samples(card: Card, folder: Path, count: int) -> list[Sample]:
    """At most so many that this model takes, the same ones every time.

    Raises:
        BenchFailed: clips of speech cannot be fetched.
        ModelLoadFailed: the folder's tokenizer cannot be read.
    """
    preparer = preparer_of(card, folder, Profile(), "tokens", WorkerSettings())
    found: list[Sample] = []
    for items, params, query in _asked(card, count):
        for item, made in zip(items, preparer.prepare(items, params, query), strict=True):
            if not isinstance(made, Prepared):
                raise made
            found += [Sample(item, sequence) for sequence in made.sequences]
    return found


def _asked(card: Card, count: int) -> Iterator[tuple[list[Item], Params, Item | None]]:
    """Items, what is asked of them, and a query."""
    if "audio" in card.inputs:
        yield [Media(clip.wav) for clip in clips(count)], ExtractParams(), None
    elif "image" in card.inputs:
        yield [Media(_picture(grain)) for grain in _GRAINS[:count]], ExtractParams(), None
    elif card.tasks.score is not None and card.tasks.score.head == "cross-encoder":
        others = _texts(count // len(_QUERIES))
        for query in _QUERIES:
            yield [*_QUERIES.values(), *others], ScoreParams(query.encode()), query
    elif card.tasks.extract is not None:
        yield [*_texts(count)], ExtractParams(), None
    elif card.tasks.generate is not None:
        yield [*_texts(count)], GenerateParams(), None
    else:
        prompts = card.tasks.encode.prompts if card.tasks.encode is not None else {}
        outputs = tuple(heads_of(card))
        prompt = QUERY if QUERY in prompts else None
        yield [*_texts(count)], EncodeParams(outputs, prompt=prompt), None


def _texts(count: int) -> list[str]:
    """In turns: odd ones, drawn ones from short to long, sentences in German and English."""
    rng = random.Random(count)
    drawn = [text(rng, 4 + (_LONGEST - 4) * n // max(1, count - 1)) for n in range(count)]
    kinds = zip(_ODD * count, drawn, sentences("de", count), sentences("en", count), strict=False)
    return [one for kind in kinds for one in kind][:count]


def _picture(grain: int) -> bytes:
    """A PNG of `grain` random colours each way, smoothed."""
    from PIL import Image

    colours = np.random.default_rng(grain).integers(0, 256, (grain, grain, 3), np.uint8)
    file = io.BytesIO()
    smooth = Image.fromarray(colours).resize((_PIXELS, _PIXELS), Image.Resampling.BICUBIC)
    smooth.save(file, "PNG")
    return file.getvalue()

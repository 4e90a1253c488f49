"""The libraries' side of the comparison: sentence-transformers and transformers, in float32.

Started as ``python -m shoal.bench.quality.reference``. What models need beside their files (pooling,
prompts) stands here as their authors state it, so that an error in a card of the catalog shows.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, assert_never

import msgspec
import numpy as np
from tokenizers import Tokenizer

from shoal.bench import libraries
from shoal.bench.failure import BenchFailed
from shoal.bench.piped import Helper, serve
from shoal.bench.quality.asked import Answer, Find, Hear, Question, Rank, Search
from shoal.bench.quality.metrics import Scores, late
from shoal.bench.rivals import thread_limits
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.installing import install_package
from shoal.wire.objects import Entity

_LIBRARIES = ("sentence_transformers", "transformers")
#: Texts of a batch; it changes no result by more than float32's last digits.
_BATCH = 8
_RATE = 16_000


class _Usage(msgspec.Struct, frozen=True):
    """How a model is meant to be used."""

    pooling: str = "mean"
    query: str = ""
    document: str = ""


_USAGE = {
    "bge-small-en-v1.5": _Usage(
        "cls", query="Represent this sentence for searching relevant passages: "
    ),
    "multilingual-e5-small": _Usage(query="query: ", document="passage: "),
}


def reference(threads: int) -> Helper[Question, Answer]:
    """A process with the libraries. Raises `BenchFailed` where they are not installed."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise BenchFailed(
            f"the reference is computed by {' and '.join(missing)}, not installed here: "
            f"{install_package('sentence-transformers')}"
        )
    limits = {**thread_limits(threads), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    return Helper("shoal.bench.quality.reference", Answer, env=limits)


def answer(question: Question) -> Answer:
    """The question's answer by the libraries; a model is read anew for each."""
    folder = fetch(Catalog.load().card(question.model), cache_dir=None, offline=False)
    match question:
        case Search():
            return Answer(_alike(question, folder).tolist())
        case Rank(_, queries, documents):
            return Answer(_ranked(folder, queries, documents))
        case Find(_, texts, aggregation):
            return Answer(entities=_entities(folder, texts, aggregation))
        case Hear(_, clips):
            return Answer(texts=_hear(folder, clips))
    assert_never(question)


def _alike(search: Search, folder: Path) -> Scores:
    usage = _USAGE.get(search.model, _Usage())
    queries = [usage.query + text for text in search.queries]
    documents = [usage.document + text for text in search.documents]
    if search.output == "multivector":
        encode = _of_tokens(folder)
        return late(encode(queries), encode(documents))
    vectors = _dense(folder, usage.pooling) if search.output == "dense" else _sparse(folder)
    product: Scores = vectors(queries) @ vectors(documents).T
    return product


def _dense(folder: Path, pooling: str) -> Callable[[list[str]], Scores]:
    model = libraries.dense(folder, pooling)
    return lambda texts: np.asarray(
        model.encode(texts, normalize_embeddings=True, batch_size=_BATCH), np.float32
    )


def _sparse(folder: Path) -> Callable[[list[str]], Scores]:
    model = libraries.sparse(folder)

    def encode(texts: list[str]) -> Scores:
        vectors = model.encode(texts, convert_to_sparse_tensor=False, batch_size=_BATCH)
        return np.asarray(vectors.numpy(), np.float32)

    return encode


def _of_tokens(folder: Path) -> Callable[[list[str]], list[Scores]]:
    model = libraries.multivector(folder)
    return lambda texts: [
        np.asarray(vectors, np.float32) for vectors in model.encode(texts, batch_size=_BATCH)
    ]


def _ranked(folder: Path, queries: list[str], documents: list[list[str]]) -> list[list[float]]:
    model = libraries.cross_encoder(folder)
    return [
        model.predict([(query, text) for text in texts], batch_size=_BATCH).tolist()
        for query, texts in zip(queries, documents, strict=True)
    ]


def _entities(folder: Path, texts: list[str], aggregation: str) -> list[list[Entity]]:
    find = libraries.entities(folder, aggregation)
    return [[_entity(text, found) for found in find(text)] for text in texts]


def _entity(text: str, found: dict[str, Any]) -> Entity:
    start, end = int(found["start"]), int(found["end"])
    return Entity(text[start:end], found["entity_group"], float(found["score"]), start, end)


def _hear(folder: Path, clips: list[bytes]) -> list[str]:
    from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

    model: Any = WhisperForConditionalGeneration.from_pretrained(str(folder), dtype="float32")
    features = WhisperFeatureExtractor.from_pretrained(str(folder))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts: list[str] = []
    for clip in clips:
        mel = features(_samples(clip), sampling_rate=_RATE, return_tensors="pt").input_features
        (ids,) = model.generate(mel, return_timestamps=True).tolist()
        # Times and other special ids come after the one that ends a text.
        said = [token for token in ids if token < model.generation_config.eos_token_id]
        texts.append(tokenizer.decode(said).strip())
    return texts


def _samples(clip: bytes) -> Scores:
    with wave.open(io.BytesIO(clip)) as sound:
        assert sound.getparams()[:3] == (1, 2, _RATE), "one channel, 16 bits, 16 kHz"
        whole = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
    return whole.astype(np.float32) / np.float32(1 << 15)


if __name__ == "__main__":
    serve(Question, answer)

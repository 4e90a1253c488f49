"""A model for each card: of its architecture, with the heads that its tasks need, and tiny."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from sentence_transformers.base.modules import Dense
from transformers import (
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    XLMRobertaConfig,
)

from shoal.catalog.card import Card, Memory, Source
from shoal.catalog.tasks import Tasks
from tests.catalog.model_types import model_type_of
from tests.runtimes.torch import efficientnet, gliner, made, media, speech, towers, vision
from tests.runtimes.torch.card_tokenizers import tokenizer_of
from tests.runtimes.torch.families.cells import added
from tests.runtimes.torch.families.row import SHAPE, Kind, Row, classes
from tests.runtimes.torch.families.rows import ROWS
from tests.worker.media import tiny

#: Of what the rows of the families make.
WIDTH = 32
#: What projections make of it.
NARROW = 12
MB = 1e6

#: What config.json says where the card names no labels; models for any labels know entailment.
LABELS = {
    "token-labels": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    "sequence-labels": ["calm", "angry", "sad"],
    "image-labels": ["a fish", "a bird", "a cat"],
    "nli": ["entailment", "not_entailment"],
}
#: What the published models of an architecture have in common and its defaults lack.
_AS_PUBLISHED: dict[str, dict[str, Any]] = {"deberta": ROWS["deberta"].variants[1]}
_KINDS: dict[str, Kind] = {
    "cross-encoder": "sequence",
    "yes-no": "generator",
    "token-labels": "tokens",
    "spans": "encoder",
    "sequence-labels": "sequence",
    "nli": "sequence",
}


class Models:
    """Folders below `root`, one for all cards that need the same."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def card(self, card: Card) -> Card:
        """The card of a tiny model; all but its source and its sizes is as it was."""
        tasks = _tiny(card)
        wanted = [card.family, model_type_of(card), card.max_tokens, tasks, _key(card)]
        name = hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]
        folder = self._root / name
        if not folder.exists():
            folder.mkdir(parents=True)
            _FILES.get(card.family, _text)(card, folder)
        size = (folder / "model.safetensors").stat().st_size
        return msgspec.structs.replace(
            card,
            source=Source(dir=str(folder)),
            tasks=tasks,
            max_tokens=_MOST.get(card.family, card.max_tokens),
            memory=Memory(size / MB),
        )


def _key(card: Card) -> str:
    """Tells tokenizers apart."""
    if "text" not in card.inputs:
        return ""
    return hashlib.sha256(tokenizer_of(card).backend_tokenizer.to_str().encode()).hexdigest()


def _tiny(card: Card) -> Tasks:
    """The card's tasks with the widths of a tiny model."""
    encode = card.tasks.encode
    if encode is None:
        return card.tasks
    if encode.dense is not None:
        width = NARROW if encode.dense.projections else _WIDTHS.get(card.family, WIDTH)
        matryoshka = [width // 2] if encode.dense.matryoshka else []
        dense = msgspec.structs.replace(encode.dense, dim=width, matryoshka=matryoshka)
        encode = msgspec.structs.replace(encode, dense=dense)
    if encode.multivector is not None:
        width = NARROW if encode.multivector.projections else WIDTH
        vectors = msgspec.structs.replace(encode.multivector, dim=width)
        encode = msgspec.structs.replace(encode, multivector=vectors)
    return msgspec.structs.replace(card.tasks, encode=encode)


def _text(card: Card, folder: Path) -> None:
    tokenizer = tokenizer_of(card)
    score = card.tasks.score
    answers = (0,) if score is None else (score.yes or 0, score.no or 0)
    _row(card).make(
        _kind(card.tasks),
        folder,
        **_AS_PUBLISHED.get(card.family, {}),
        vocab_size=max(len(tokenizer), *(answer + 1 for answer in answers)),
        # RoBERTa and MPNet leave the first two of their positions unused.
        max_position_embeddings=card.max_tokens + 2,
        id2label=dict(enumerate(_labels(card))),
    )
    # GTE's publisher calls by another name what the reference library has.
    made.change_config(folder, {"model_type": model_type_of(card)})
    tokenizer.save_pretrained(folder)
    _project(card.tasks, folder)
    if card.tasks.extract is not None and card.tasks.extract.head == "spans":
        gliner.wrap(folder)


def _row(card: Card) -> Row:
    row = ROWS[card.family]
    if card.family == "t5":  # what writes has no cell for yes and no
        return dataclasses.replace(
            row, classes=row.classes | {"generator": T5ForConditionalGeneration}
        )
    if model_type_of(card) != "xlm-roberta":
        return row
    return dataclasses.replace(
        row,
        config=lambda **changes: XLMRobertaConfig(**SHAPE | changes),
        classes=classes("XLMRoberta"),
    )


def _kind(tasks: Tasks) -> Kind:
    if tasks.generate is not None:  # what writes has the parts of what encodes
        return "generator"
    if tasks.encode is not None:
        sparse = tasks.encode.sparse
        return "masked-lm" if sparse is not None and sparse.head == "splade" else "encoder"
    task = tasks.score or tasks.extract
    assert task is not None, "a card has a task"
    return _KINDS[task.head]


def _labels(card: Card) -> list[str]:
    extract = card.tasks.extract
    if extract is None:
        return ["relevance"]
    return extract.labels or LABELS.get(extract.head, [])


def _project(tasks: Tasks, folder: Path) -> None:
    """Adds the projections that the card names, of which there is one at most."""
    encode = tasks.encode
    outputs = () if encode is None else (encode.dense, encode.multivector)
    for output in outputs:
        for name in [] if output is None else output.projections:
            if name == "linear":
                added(folder, name, WIDTH, NARROW, bias=False)
                continue
            (folder / name).mkdir()
            Dense(WIDTH, NARROW).save(str(folder / name))


def _clip(card: Card, folder: Path) -> None:
    tokenizer = tokenizer_of(card)
    text = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": card.max_tokens,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    towers.clip(folder, text)
    tokenizer.save_pretrained(folder)


def _colpali(card: Card, folder: Path) -> None:
    tiny.colpali(folder, most=card.max_tokens)


def _colmodernvbert(card: Card, folder: Path) -> None:
    tiny.colmodernvbert(folder, card.max_tokens)


def _siglip(card: Card, folder: Path) -> None:
    tokenizer = tokenizer_of(card)
    text = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": card.max_tokens,
        "pad_token_id": tokenizer.pad_token_id,
    }
    towers.siglip(folder, text)
    tokenizer.save_pretrained(folder)


def _vit(card: Card, folder: Path) -> None:
    """Squares as many as the card has tokens: ViT's own."""
    sizes = {"image_size": 224, "patch_size": 16}
    config = ViTConfig(**vision.SHAPE | sizes, id2label=dict(enumerate(_labels(card))))
    media.save(folder, ViTForImageClassification(config), size=224)


def _efficientnet(card: Card, folder: Path) -> None:
    """Squares of 32 pixels are what is left, as many as the card has tokens."""
    labels = dict(enumerate(_labels(card)))
    size = 32 * math.isqrt(card.max_tokens)
    efficientnet.save(folder, image_size=size, num_labels=len(labels), id2label=labels)


def _whisper(_: Card, folder: Path) -> None:
    tiny.whisper(folder)


_FILES: dict[str, Callable[[Card, Path], None]] = {
    "clip": _clip,
    "colmodernvbert": _colmodernvbert,
    "colpali": _colpali,
    "efficientnet": _efficientnet,
    "siglip": _siglip,
    "vit": _vit,
    "whisper": _whisper,
}
#: Where a tiny model is narrower or shorter than `WIDTH` or the card says.
_WIDTHS = {"clip": 20, "efficientnet": efficientnet.SHAPE["hidden_dim"]}
_MOST = {"whisper": speech.FRAMES // 2}

"""What both sides of the comparison are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from shoal.bench.quality.metrics import Scores
from shoal.wire.objects import Entity


class Search(msgspec.Struct, frozen=True, tag=True):
    """How like each query is to each document, by these vectors."""

    model: str
    output: Literal["dense", "sparse", "multivector"]
    queries: list[str]
    documents: list[str]


class Rank(msgspec.Struct, frozen=True, tag=True):
    """How well documents answer queries; `documents`: those of each query."""

    model: str
    queries: list[str]
    documents: list[list[str]]


class Find(msgspec.Struct, frozen=True, tag=True):
    """The entities of texts; `aggregation`: how transformers' pipeline makes them of tokens."""

    model: str
    texts: list[str]
    aggregation: Literal["simple", "average"] = "simple"


class Hear(msgspec.Struct, frozen=True, tag=True):
    """What is said in clips: WAV files of one channel, 16 bits, 16 kHz."""

    model: str
    clips: list[bytes]


class Read(msgspec.Struct, frozen=True, tag=True):
    """What stands in pictures: PNG files."""

    model: str
    pictures: list[bytes]


#: What both sides can answer. What stands in a drawn picture is known without a library.
Question: TypeAlias = Search | Rank | Find | Hear


class Answer(msgspec.Struct, frozen=True):
    """What the question is about.

    Attributes:
        scores: of each query, a number for each document that it was asked of.
        entities: of each text, in its order.
        texts: of each clip, or picture.
    """

    scores: list[list[float]] = []
    entities: list[list[Entity]] = []
    texts: list[str] = []

    @property
    def matrix(self) -> Scores:
        """`scores` as [queries, documents]."""
        return np.array(self.scores, np.float32)


Ask: TypeAlias = Callable[[Question], Answer]
AskOurs: TypeAlias = Callable[[Question | Read], Answer]

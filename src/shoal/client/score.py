"""`score` as the client has it: what may be asked, and how answers become an array."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.client.items import Item
from shoal.client.options import none_left, taken
from shoal.client.question import Asked, ItemBody
from shoal.client.result import Collector, Told
from shoal.client.turn import TurnOptions, headers_of
from shoal.errors import ProtocolError
from shoal.values import ScoreParams


class ScoreOptions(TurnOptions, total=False):
    """What may be asked of `score` by keyword.

    Attributes:
        raw: the model's logit, without the activation of its card.
        truncate: cut documents that are too long (the default); false: they are errors.
        document_tokens: cut documents to so many tokens, of a model that reads query and document
            as one.
        instruction: what is looked for, in your own words, of a model that takes one.
    """

    raw: bool
    truncate: bool
    document_tokens: int | None
    instruction: str | None


class _Item(ItemBody, frozen=True):
    score: float | None = None


class _Body(msgspec.Struct, frozen=True):
    items: list[_Item]


_decoder = msgspec.msgpack.Decoder(_Body)


def asked(model: str, query: Item, options: ScoreOptions) -> Asked[float]:
    """Raises `InvalidRequest` for what cannot be asked, `TypeError` for what is no option."""
    given: dict[str, Any] = dict(options)
    headers = headers_of(given)
    params = msgspec.structs.asdict(ScoreParams(b"", **taken(given, ScoreParams)))
    none_left(given, "score", ScoreOptions.__annotations__)
    del params["query"]
    told = {name: value for name, value in params.items() if value is not None}
    fields = {"query": query, "params": told}
    return Asked("score", model, fields, headers, _decoder.decode, _read)


def _read(body: _Item) -> float:
    if body.score is None:
        raise ProtocolError("an item of the answer has neither a score nor an error")
    return body.score


class Scored(Told, frozen=True, eq=False, kw_only=True):
    """What `score` of n documents gave.

    Attributes:
        scores: float32 [n_ok], one for each document that has a score.
    """

    scores: NDArray[np.float32]

    def ranked(self) -> NDArray[np.int64]:
        """Positions of the documents, int64 [n_ok], the best first; of equal ones the earlier."""
        return self.positions[np.argsort(-self.scores, kind="stable")]


class ScoreCollector(Collector[float, Scored]):
    """One number a document."""

    def __init__(self, model: str, count: int) -> None:
        super().__init__(model, count)
        self._scores = np.zeros(count, np.float32)

    def place(self, position: int, value: float) -> None:
        self._scores[position] = value

    def result(self) -> Scored:
        told = msgspec.structs.asdict(self.told())
        return Scored(**told, scores=self._scores[self.have])

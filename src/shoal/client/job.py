"""One `encode` call as a row of exchanges, and what came of them.

Decides which part is asked next and when the call has failed. A shell takes exchanges until there
are no more, performs up to `in_flight` of them at a time, and settles each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import msgspec
from numpy.typing import NDArray

from shoal.client.encoding import EncodeQuestion, Limits, Row, Texts, cut, items_of
from shoal.client.protocol import Exchange, Policy
from shoal.client.result import Collector, Encoded
from shoal.client.turn import Turn
from shoal.errors import ShoalError
from shoal.values import EncodeParams, VectorDType

Rows = dict[int, Row | ShoalError]
#: Called with (texts answered, texts in all) after each answered request.
Report = Callable[[int, int], None]


class EncodeOptions(TypedDict, total=False):
    """What may be asked of `encode` by keyword.

    Attributes:
        prompt: name of one of the model's prompts, such as ``query``.
        dimensions: cut vectors to this many values and normalise them again (Matryoshka).
        dtype: element type of the vectors; ``float16`` halves what travels.
        normalize: unit length or not; unset: as the model's card says.
        truncate: cut texts that are too long (the default); false: they are errors.
        priority: from -10 to 10; higher goes first among the requests of one user.
        bulk: run in what interactive work leaves; give the client a `timeout_s` that allows for it.
        user: who of your own users asks; users take turns.
    """

    prompt: str | None
    dimensions: int | None
    dtype: VectorDType
    normalize: bool | None
    truncate: bool
    priority: int
    bulk: bool
    user: str


class EncodeCall(msgspec.Struct, frozen=True):
    """What the caller asked.

    Attributes:
        strict: the first text that gets an error ends the call.
    """

    model: str
    texts: Texts
    options: EncodeOptions
    report: Report
    strict: bool = True


class EncodeJob:
    """Gives out exchanges in order and takes their rows in any order; not thread-safe."""

    def __init__(self, call: EncodeCall, policy: Policy, limits: Limits) -> None:
        self._call = call
        self._policy = policy
        options: dict[str, Any] = dict(call.options)
        turn = {name: options.pop(name) for name in Turn.__struct_fields__ if name in options}
        self._headers = Turn(**turn).headers()
        self._params = EncodeParams(**options)
        self._items = items_of(call.texts)
        self._parts = list(cut(self._items, limits))
        self._begun = 0
        self._collector = Collector(call.model, len(self._items), self._params)
        self.in_flight = min(len(self._parts), limits.in_flight)

    def next(self) -> Exchange[Rows] | None:
        """The next exchange to perform; None once all are given out."""
        if self._begun == len(self._parts):
            return None
        part = self._parts[self._begun]
        self._begun += 1
        question = EncodeQuestion(self._call.model, self._items, part, self._params, self._headers)
        return Exchange(question, self._policy)

    def settle(self, rows: Rows) -> None:
        """Take in what one exchange gave. Raises a text's error if the call is strict."""
        if self._call.strict:
            _raise_first(rows)
        self._collector.add(rows)
        self._call.report(self._collector.done, len(self._items))

    def result(self) -> Encoded:
        """Everything, once every exchange is settled."""
        return self._collector.result()

    def vectors(self) -> NDArray[Any]:
        """[n, dim], or [dim] where the caller gave one text by itself."""
        vectors = self.result().vectors
        return vectors[0] if isinstance(self._call.texts, str | bytes) else vectors


def _raise_first(rows: Rows) -> None:
    for row in rows.values():
        if isinstance(row, ShoalError):
            raise row

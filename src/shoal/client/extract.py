"""`extract` as the client has it: what may be asked, and how answers become objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from shoal.client.failures import ErrorBody
from shoal.client.options import none_left, taken
from shoal.client.question import Asked
from shoal.client.result import Collector, Told
from shoal.client.turn import TurnOptions, headers_of
from shoal.errors import InvalidRequest, ProtocolError
from shoal.values import ExtractParams, Speech
from shoal.wire.objects import Extraction


class ExtractOptions(TurnOptions, total=False):
    """What may be asked of `extract` by keyword.

    Attributes:
        labels: what to look for; of a model with labels of its own, a choice of those.
        threshold: least score of what is told, 0 to 1; unset: as the model's card says.
        multi_label: score labels by themselves; unset: as the model's card says.
        truncate: cut items that are too long (the default); false: they are errors.
        nested: entities may lie inside others, where the model finds spans.
        schema: a JSON schema of the fields to fill in, in place of labels.
        language: that is spoken, such as ``de``, of a transcript; unset: as it is heard.
        task: ``transcribe`` (the default) or ``translate``, which is into English.
        prompt: what might have been said before a sound: names, spelling.
        temperature: of the choice of words, 0 to 1; unset: 0, and more where a text goes wrong.
    """

    labels: Sequence[str] | str | None
    threshold: float | None
    multi_label: bool | None
    truncate: bool
    nested: bool
    schema: Mapping[str, Any] | None
    language: str | None
    task: Literal["transcribe", "translate"] | None
    prompt: str | None
    temperature: float | None


class _Item(Extraction, frozen=True):
    tokens: int = 0
    truncated: bool = False
    error: ErrorBody | None = None


class _Body(msgspec.Struct, frozen=True):
    items: list[_Item]


_decoder = msgspec.msgpack.Decoder(_Body)
_FIELDS = Extraction.__struct_fields__


def asked(model: str, options: ExtractOptions) -> Asked[Extraction]:
    """Raises `InvalidRequest` for what cannot be asked, `TypeError` for what is no option."""
    given: dict[str, Any] = dict(options)
    headers = headers_of(given)
    if isinstance(given.get("labels"), str):
        given["labels"] = (given["labels"],)
    schema = given.pop("schema", None)
    if not isinstance(schema, Mapping | None):
        raise InvalidRequest(
            f"schema is of type {type(schema).__name__}; a JSON schema as a dict is needed",
            param="schema",
        )
    speech = taken(given, Speech)
    params = msgspec.structs.asdict(ExtractParams(**taken(given, ExtractParams)))
    none_left(given, "extract", ExtractOptions.__annotations__)
    params |= {**speech, "schema": schema}
    params["nested"] = params["nested"] or None  # gateways of before know it not
    fields = {"params": {name: value for name, value in params.items() if value is not None}}
    return Asked("extract", model, fields, headers, _decoder.decode, _read)


def _read(body: _Item) -> Extraction:
    told = {name: value for name in _FIELDS if (value := getattr(body, name)) is not None}
    if not told:
        raise ProtocolError("an item of the answer has neither anything extracted nor an error")
    return Extraction(**told)


class Extracted(Told, frozen=True, eq=False, kw_only=True):
    """What `extract` of n items gave.

    Attributes:
        found: one entry for each item that has an answer.
    """

    found: list[Extraction]


class ExtractCollector(Collector[Extraction, Extracted]):
    """One object an item."""

    def __init__(self, model: str, count: int) -> None:
        super().__init__(model, count)
        self._found: dict[int, Extraction] = {}

    def place(self, position: int, value: Extraction) -> None:
        self._found[position] = value

    def result(self) -> Extracted:
        told = msgspec.structs.asdict(self.told())
        return Extracted(**told, found=[self._found[n] for n in sorted(self._found)])

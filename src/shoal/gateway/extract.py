"""`POST /v1/extract/{model}`: entities, labels, transcripts and what is read; the native route.

Decides the shape of its request and its answer, and which options a model does not have. It must
not know units or the queue.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.catalog.tasks import ExtractTask
from shoal.errors import InvalidRequest, PayloadTooLarge, ProtocolError
from shoal.gateway.asking import Question
from shoal.gateway.body import BodyDecoder, ItemLimits, checked_items
from shoal.gateway.native import ITEM_SCHEMA, NativeRoute
from shoal.gateway.render import item_shape
from shoal.gateway.replies import ItemAnswer
from shoal.gateway.service import Gateway
from shoal.spelling import nearest
from shoal.tasks.entities import scheme_of
from shoal.tasks.schema import read_schema
from shoal.values import Encoding, ExtractParams, Speech
from shoal.wire.codec import Buffer

#: Labels travel inside every unit, and each may be a sequence of its own for each item.
LABELS_MOST, LABELS_MOST_BYTES = 1024, 64 * 1024
#: Of what might have been said before a transcript: its last 223 tokens are read, about 1 KiB.
PROMPT_MOST_BYTES = 4 * 1024
#: Models that find whatever they are told to.
OPEN_HEADS = ("nli", "image-text", "spans")
#: Those that find entities, of which the fields of a schema are filled in.
FILLING_HEADS = ("spans", "token-labels")
#: Models that tell what is said or written.
LABELLESS = ("transcript", "ocr")


class ExtractOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `params` of a native extract request."""

    labels: Annotated[
        tuple[str, ...] | None,
        Meta(description="What to look for; of a model with labels of its own, a choice of those."),
    ] = None
    threshold: Annotated[
        float | None,
        Meta(description="Least score of what is told, 0 to 1; unset: as the model's card says."),
    ] = None
    multi_label: Annotated[
        bool | None,
        Meta(description="Score labels by themselves; unset: as the model's card says."),
    ] = None
    truncate: Annotated[
        bool, Meta(description="Cut items that are too long; false: such an item fails.")
    ] = True
    nested: Annotated[
        bool, Meta(description="Entities may lie inside others; of models that find spans.")
    ] = False
    schema: Annotated[
        dict[str, Any] | None,
        Meta(description="A JSON schema of the fields to fill in, in place of labels."),
    ] = None
    language: Annotated[
        str | None,
        Meta(description="That is spoken, such as `de`, of a transcript; unset: as it is heard."),
    ] = None
    task: Annotated[
        Literal["transcribe", "translate"] | None,
        Meta(description="Of a transcript; translating is into English."),
    ] = None
    prompt: Annotated[
        str | None,
        Meta(description="What might have been said before, of a transcript: names, spelling."),
    ] = None
    temperature: Annotated[
        float | None,
        Meta(
            description="Of the choice of words of a transcript, 0 to 1; unset: 0, and more where "
            "a text goes wrong."
        ),
    ] = None


class ExtractBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a native extract request."""

    items: Annotated[
        list[msgspec.Raw],
        Meta(
            description="Texts, images or audio; one answer each, in order.",
            extra_json_schema={"items": ITEM_SCHEMA},
        ),
    ]
    params: ExtractOptions = ExtractOptions()


_decoder = BodyDecoder(ExtractBody)


def extract_route(gateway: Gateway) -> NativeRoute:
    """The route, bound to a gateway."""
    return NativeRoute(gateway, "extract", _read, lambda _: _shape)


def _read(body: Buffer, encoding: Encoding, card: Card, limits: ItemLimits) -> Question:
    decoded: ExtractBody = _decoder.decode(body, encoding)
    params = extract_params(decoded.params, card)
    return Question(card, params, encoding, checked_items(decoded.items, encoding, limits, "items"))


def extract_params(options: ExtractOptions, card: Card, prefix: str = "params.") -> ExtractParams:
    """`options` as they travel. `prefix`: what comes before an option's name in the body.

    Raises:
        InvalidRequest: an option that this model does not have, or out of its range.
        PayloadTooLarge: too many labels.
    """
    task = card.tasks.extract
    assert task is not None, "the route looked"
    schema = ""
    if options.schema is not None:
        schema = _schema(options, card, task, prefix)
    else:
        _check_labels(options.labels, card, task, f"{prefix}labels")
    _check_scores(options, card, task, prefix)
    if options.nested and task.head != "spans":
        where = f"{prefix}nested"
        raise InvalidRequest(f"'{card.name}' finds no spans, so none lies in another", param=where)
    speech = _speech(options, card, task, prefix)
    return ExtractParams(
        options.labels,
        options.threshold,
        options.multi_label,
        options.truncate,
        options.nested,
        schema,
        speech,
    )


def _check_scores(options: ExtractOptions, card: Card, task: ExtractTask, prefix: str) -> None:
    for name in ("threshold", "multi_label") if task.head == "transcript" else ():
        if getattr(options, name) is not None:
            where = f"{prefix}{name}"
            raise InvalidRequest(
                f"{where}: '{card.name}' transcribes; no label has a score", param=where
            )
    threshold = options.threshold
    if threshold is not None and not 0 <= threshold <= 1:
        where = f"{prefix}threshold"
        raise InvalidRequest(f"{where} is {threshold:g}: it is from 0 to 1", param=where)


def _schema(options: ExtractOptions, card: Card, task: ExtractTask, prefix: str) -> str:
    """The schema as it travels."""
    where = f"{prefix}schema"
    if task.head not in FILLING_HEADS:
        raise InvalidRequest(f"'{card.name}' finds no entities to fill in a schema", param=where)
    if options.labels is not None:
        raise InvalidRequest(f"give {where} or labels; a schema says itself what to look for")
    text = msgspec.json.encode(options.schema).decode()
    if len(text) > LABELS_MOST_BYTES:
        raise PayloadTooLarge(f"{where}: at most {LABELS_MOST_BYTES} bytes", param=where)
    try:
        read_schema(text)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, param=where) from None
    return text


def _speech(options: ExtractOptions, card: Card, task: ExtractTask, prefix: str) -> Speech | None:
    """What is asked of a transcript; None: nothing."""
    asked = {
        name: value
        for name in Speech.__struct_fields__
        if (value := getattr(options, name)) is not None
    }
    if not asked:
        return None
    name = next(iter(asked))
    if task.head != "transcript":
        where = f"{prefix}{name}"
        raise InvalidRequest(f"{where}: '{card.name}' transcribes no speech", param=where)
    temperature, prompt = options.temperature, options.prompt or ""
    if temperature is not None and not 0 <= temperature <= 1:
        where = f"{prefix}temperature"
        raise InvalidRequest(f"{where} is {temperature:g}: it is from 0 to 1", param=where)
    if (size := len(prompt.encode())) > PROMPT_MOST_BYTES:
        where = f"{prefix}prompt"
        raise PayloadTooLarge(
            f"{where} has {size} bytes; it may have {PROMPT_MOST_BYTES}", param=where
        )
    return Speech(**asked)


def _check_labels(
    labels: tuple[str, ...] | None, card: Card, task: ExtractTask, where: str
) -> None:
    if labels is None:
        if task.head in OPEN_HEADS and not task.labels:
            raise InvalidRequest(
                f"'{card.name}' finds what it is told to: name it in {where}", param=where
            )
        return
    if task.head in LABELLESS:
        raise InvalidRequest(f"'{card.name}' tells a text; it takes no labels", param=where)
    if not labels or not all(label.strip() for label in labels):
        raise InvalidRequest(f"{where} is empty, or has an empty label", param=where)
    size = sum([len(label.encode()) for label in labels[: LABELS_MOST + 1]])
    if len(labels) > LABELS_MOST or size > LABELS_MOST_BYTES:
        raise PayloadTooLarge(
            f"{where}: at most {LABELS_MOST} labels of {LABELS_MOST_BYTES} bytes in all",
            param=where,
        )
    if task.head not in OPEN_HEADS and task.labels:
        _check_known(labels, card, task, where)


def _check_known(labels: tuple[str, ...], card: Card, task: ExtractTask, where: str) -> None:
    known = task.labels
    if task.head == "token-labels":
        known = list(scheme_of(tuple(known)).names)
    for label in labels:
        if label not in known:
            raise InvalidRequest(
                f"'{card.name}' has no label '{label[:80]}'{nearest(label, known)}", param=where
            )


def told(item: ItemAnswer) -> dict[str, msgspec.Raw]:
    """What was extracted from an item that did not fail. Raises `ProtocolError`."""
    try:
        return _told.decode(item.told)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"what a worker extracted is no map: {error}") from None


_told = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


def _shape(item: ItemAnswer, msgpack: bool) -> dict[str, Any]:
    if item.error is not None:
        return item_shape(item, {})
    found: dict[str, Any] = dict(told(item))
    if not msgpack:
        found = {name: msgspec.msgpack.decode(raw) for name, raw in found.items()}
    return item_shape(item, found)

"""Conversations in OpenAI's shape: what a message may be.

Decides which are malformed; templates, which the worker has, make them text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from shoal.catalog.card import Card, Input
from shoal.errors import InvalidRequest
from shoal.gateway.body import BodyDecoder
from shoal.tasks.reading import IMAGE_BYTES

MESSAGES_SCHEMA: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
            "content": {},
            "tool_calls": {"type": "array"},
            "tool_call_id": {"type": "string"},
        },
        "required": ["role"],
    },
}
#: The kind of media that a part is, where it is not text.
_MEDIA: dict[str, Input] = {"image_url": "image", "input_audio": "audio"}

#: The names of models that take a kind of media in conversations.
Takers = Callable[[Input], list[str]]


class _Url(msgspec.Struct, frozen=True):
    url: str
    detail: str | None = None


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: _Url | str | None = None


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, frozen=True):
    function: _Function
    id: str | None = None
    type: Literal["function"] = "function"


class _Message(msgspec.Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class _Conversation(msgspec.Struct, frozen=True):
    messages: list[_Message]


_decoder = BodyDecoder(_Conversation)


class Talk(NamedTuple):
    """A conversation as an item, and `GenerateParams.read_bytes` of it."""

    item: msgspec.Raw
    read_bytes: int


def conversation(messages: msgspec.Raw, card: Card, takers: Takers) -> Talk:
    """The item that a body's `messages` are, as they were sent.

    `takers`: asked where this model does not take what is in them.

    Raises:
        InvalidRequest: one of them is malformed, or of a kind that the model does not take.
    """
    item = b'{"messages":%b}' % bytes(messages)
    decoded: _Conversation = _decoder.decode(item, "json")
    if not decoded.messages:
        raise InvalidRequest("messages is empty: send at least one", param="messages")
    for position, message in enumerate(decoded.messages):
        _check(message, f"messages[{position}]", card, takers)
    urls = [len(url) for message in decoded.messages for url in _images(message)]
    read = len(item) - sum(urls) + len(urls) * IMAGE_BYTES if urls else 0
    return Talk(msgspec.Raw(item), read)


def _images(message: _Message) -> Iterator[str]:
    """The URLs of those in a message."""
    for part in message.content if isinstance(message.content, list) else ():
        match part.image_url:
            case _Url(url=url) | str(url):
                yield url


def _check(message: _Message, where: str, card: Card, takers: Takers) -> None:
    content = message.content
    if content is None and not (message.role == "assistant" and message.tool_calls):
        raise InvalidRequest(f"{where} has no content", param=f"{where}.content")
    if isinstance(content, list):
        for number, part in enumerate(content):
            _check_part(part, f"{where}.content[{number}]", card, takers)


def _check_part(part: _Part, where: str, card: Card, takers: Takers) -> None:
    match part:
        case _Part(type="text", text=str()) | _Part(type="refusal", refusal=str()):
            return
        case _Part(type="image_url", image_url=_Url(url=url) | str(url)) if "image" in card.inputs:
            if not url.startswith("data:"):
                raise InvalidRequest(
                    f"{where}: images come with the request, as data: URLs; this gateway fetches "
                    f"none",
                    param=where,
                )
        case _Part(type=kind) if _MEDIA.get(kind, "text") not in card.inputs:
            others = takers(_MEDIA.get(kind, "text"))
            offer = (
                f"ask one that does more: {', '.join(others)}"
                if others
                else "no model here does more"
            )
            raise InvalidRequest(
                f"{where} is of the type {kind}, and '{card.name}' takes "
                f"{' and '.join(card.inputs)}; {offer}",
                param=where,
            )
        case _Part(type=kind):
            known = kind in ("text", "refusal", "image_url")
            why = f"has no {kind}" if known else f"is of the type {kind[:40]}, which is not taken"
            raise InvalidRequest(f"{where} {why}", param=where)

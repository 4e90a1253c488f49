"""Conversations as callers send them, in OpenAI's shape, and as chat templates take them.

Decides what of a message is wrong and says where, and takes the files of images out of it. It must not know
templates, nor which models read images. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.errors import InvalidItem
from shoal.tasks.urls import data_of, from_base64
from shoal.values import Encoding
from shoal.wire.codec import Buffer

FORM = '{"messages": [{"role": "user", "content": "..."}, ...]}'
#: Types of parts that are images, by OpenAI, its Responses, and transformers.
_IMAGES = ("image_url", "input_image", "image")
#: What other parts of a message are, by the types that OpenAI and its clients give them.
_MEDIA = {
    "input_audio": "sound",
    "audio": "sound",
    "audio_url": "sound",
    "video": "a video",
    "video_url": "a video",
    "file": "a file",
}

#: Names under which messages bring what was thought; templates read the first, some the second.
_REASONING = ("reasoning_content", "thinking", "reasoning")

Message = dict[str, Any]


class Picture(msgspec.Struct, frozen=True):
    """The file of an image, and the name of the part that it is."""

    data: bytes
    where: str


class Conversation(msgspec.Struct, frozen=True):
    """Messages, first to last, each with a ``role``.

    As transformers and vLLM give them to templates: what is null is left out, arguments of calls are
    maps, reasoning has the names that templates look for. Parts of a ``content`` are texts, and images
    whose files are in `pictures`, in their order.
    """

    messages: list[Message]
    pictures: tuple[Picture, ...] = ()


_DECODERS: dict[Encoding, Any] = {
    "json": msgspec.json.Decoder(dict[str, Any]),
    "msgpack": msgspec.msgpack.Decoder(dict[str, Any]),
}


def read_conversation(raw: Buffer, encoding: Encoding) -> Conversation:
    """One item that is a conversation. Raises `InvalidItem` that says what is wrong, and where."""
    try:
        item = _DECODERS[encoding].decode(raw)
        messages = item.pop("messages", None)
        if item or not isinstance(messages, list) or not messages:
            raise InvalidItem(_no_conversation(item, messages))
        found: list[Picture] = []
        read = [_message(m, f"messages[{n}]", found) for n, m in enumerate(messages)]
        return Conversation(read, tuple(found))
    except msgspec.ValidationError as error:
        raise InvalidItem(f"{error}; a conversation is {FORM}") from None
    except (msgspec.DecodeError, OverflowError):
        raise InvalidItem(f"not valid Unicode text; a conversation is {FORM}") from None
    except RecursionError:
        raise InvalidItem("a message is nested too deeply") from None


def _no_conversation(others: dict[str, Any], messages: object) -> str:
    if others:
        return f"has '{next(iter(others))}' beside its messages; a conversation is {FORM}"
    if messages == []:
        return "has no messages: send at least one"
    return f"has no list of messages; a conversation is {FORM}"


def text_in(content: str | list[Message]) -> str:
    """Of a message, for a template that reads no parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _message(message: object, where: str, pictures: list[Picture]) -> Message:
    """Files of images are put to `pictures`."""
    if not isinstance(message, dict):
        raise InvalidItem(f"{where} must be a map with a role and a content")
    if not isinstance(role := message.get("role"), str) or not role:
        raise InvalidItem(f"{where} has no role, such as user or assistant")
    read = {key: value for key, value in message.items() if value is not None}
    _check_plain({key: value for key, value in read.items() if key != "content"}, where)
    if "content" in read:
        read["content"] = _content(read["content"], f"{where}.content", pictures)
    elif not (role == "assistant" and read.get("tool_calls")):
        raise InvalidItem(f"{where} has no content")
    if (thought := next((read[key] for key in _REASONING if key in read), None)) is not None:
        read = {"thinking": thought, **read, "reasoning_content": thought}
    if "tool_calls" in read:
        read["tool_calls"] = _calls(read["tool_calls"], f"{where}.tool_calls")
    return read


def _content(content: object, where: str, pictures: list[Picture]) -> str | list[Message]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidItem(f"{where} must be a text, or a list of parts")
    return [_part(part, f"{where}[{n}]", pictures) for n, part in enumerate(content)]


def _part(part: object, where: str, pictures: list[Picture]) -> Message:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str):
        raise InvalidItem(f'{where} must be a part such as {{"type": "text", "text": "..."}}')
    if kind in _IMAGES:
        pictures.append(Picture(_file(part, where), where))
        return {"type": "image"}
    if kind in _MEDIA:
        raise InvalidItem(f"{where} is {_MEDIA[kind]}, and conversations are of text and images")
    # What an assistant would not say comes back in the next request under a name of its own.
    text = part.get(kind) if kind in ("text", "refusal") else None
    if not isinstance(text, str):
        raise InvalidItem(f"{where} is of type '{kind}' and no text; its type is text, with a text")
    return {"type": "text", "text": text}


def _file(part: Message, where: str) -> bytes:
    """Of an image. Raises `InvalidItem`: what a URL leads to is never fetched."""
    match part:
        case {"image_url": {"url": str(url)} | str(url)}:
            return data_of(url, f"{where}.image_url")
        case {"image": bytes(data)}:
            return data
        case {"image": str(text)} if text.startswith("data:"):
            return data_of(text, f"{where}.image")
        case {"image": str(text)}:
            return from_base64(text, f"{where}.image")
    raise InvalidItem(
        f'{where} has no file: an image is {{"type": "image_url", "image_url": {{"url": "data:..."}}}} or '
        '{"type": "image", "image": "<base64>"}, in MessagePack also its bytes'
    )


def _calls(calls: object, where: str) -> list[Message]:
    if not isinstance(calls, list):
        raise InvalidItem(f"{where} must be a list")
    return [_call(call, f"{where}[{n}]") for n, call in enumerate(calls)]


def _call(call: object, where: str) -> Message:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise InvalidItem(f"{where} has no function")
    if not isinstance(function.get("name"), str):
        raise InvalidItem(f"{where}.function has no name")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            raise InvalidItem(f"{where}.function.arguments is no JSON") from None
    return {**call, "function": {**function, "arguments": arguments}}


def _check_plain(value: object, where: str) -> None:
    """Raises `InvalidItem` for what JSON has not: templates would write it as Python does."""
    match value:
        case None | bool() | int() | float() | str():
            return
        case list():
            for n, inner in enumerate(value):
                _check_plain(inner, f"{where}[{n}]")
        case dict():
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise InvalidItem(f"{where} has a key that is no text")
                _check_plain(inner, f"{where}.{key}")
        case _:
            raise InvalidItem(f"{where} is neither text, number, list nor map")

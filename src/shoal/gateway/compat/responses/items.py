"""The items of a request of OpenAI's Responses, as the messages of a conversation.

Decides which items there are: calls that follow one another are one message, as chat has them.
https://platform.openai.com/docs/api-reference/responses/create#responses_create-input
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from shoal.catalog.card import Card
from shoal.errors import InvalidRequest
from shoal.gateway.body import KINDS, LIST, TEXT
from shoal.gateway.compat.messages import Takers, Talk, conversation
from shoal.gateway.compat.responses.bodies import ResponsesBody

_maps, _text = msgspec.json.Decoder(list[dict[str, Any]]), msgspec.json.Decoder(str)
_TEXTS = ("input_text", "output_text", "text")


def conversation_of(body: ResponsesBody, card: Card, takers: Takers) -> Talk:
    """The item that `instructions` and `input` are. Raises `InvalidRequest`, as `conversation`."""
    told, places = _messages(body)
    try:
        return conversation(msgspec.Raw(msgspec.json.encode(told)), card, takers)
    except InvalidRequest as error:
        param = error.param and _placed(error.param, places)
        raise InvalidRequest(_placed(error.message, places), param=param) from None


def _placed(text: str, places: list[str]) -> str:
    """`text` of chat's messages, with where each of them stands in this body."""
    return re.sub(
        r"\bmessages\b(?:\[(\d+)\])?", lambda at: places[int(at[1])] if at[1] else "input", text
    )


def _messages(body: ResponsesBody) -> tuple[list[dict[str, Any]], list[str]]:
    """Chat's messages, and where each begins. Raises `InvalidRequest`."""
    told = [] if body.instructions is None else [_said("system", body.instructions)]
    places = ["instructions"] * len(told)
    for number, item in enumerate(_items(body.input)):
        where = f"input[{number}]"
        match item.get("type", "message"):
            case "message":
                told.append(_message(item, where))
            case "function_call":
                _add_call(told, item, where)
            case "function_call_output":
                told.append(_output(item, where))
            case "reasoning":
                pass  # what was thought is not part of what was said
            case kind:
                raise InvalidRequest(
                    f"{where} is of the type {str(kind)[:40]}: messages, function calls and their "
                    f"outputs are taken",
                    param=where,
                )
        places += [where] * (len(told) - len(places))
    return told, places


def _items(raw: msgspec.Raw) -> list[dict[str, Any]]:
    kind = KINDS["json"][memoryview(raw)[0]]
    if kind is not TEXT and kind is not LIST:
        raise InvalidRequest(f"input must be a text or items; it is {kind}", param="input")
    try:
        return _maps.decode(raw) if kind is LIST else [_said("user", _text.decode(raw))]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"input: {error}", param="input") from None


def _said(role: Any, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def _message(item: dict[str, Any], where: str) -> dict[str, Any]:
    content = item.get("content")
    if isinstance(content, list):
        content = [_part(part, f"{where}.content[{n}]") for n, part in enumerate(content)]
    return _said(item.get("role"), content)


def _part(part: Any, where: str) -> dict[str, Any]:
    match part:
        case {"type": str(kind), "text": str(text)} if kind in _TEXTS:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(refusal)}:
            return {"type": "refusal", "refusal": refusal}
        case {"type": "input_image", "image_url": str(url)}:
            return {"type": "image_url", "image_url": {"url": url}}
        case _:
            raise InvalidRequest(
                f"{where}: input_text, output_text and input_image with an image_url are taken",
                param=where,
            )


def _add_call(told: list[dict[str, Any]], item: dict[str, Any], where: str) -> None:
    """To the message before, if that is the model's."""
    for name in ("call_id", "name", "arguments"):
        if not isinstance(item.get(name), str):
            raise InvalidRequest(f"{where} has no {name}", param=f"{where}.{name}")
    function = {"name": item["name"], "arguments": item["arguments"]}
    call = {"id": item["call_id"], "type": "function", "function": function}
    if not told or told[-1]["role"] != "assistant":
        told.append(_said("assistant", None))
    told[-1].setdefault("tool_calls", []).append(call)


def _output(item: dict[str, Any], where: str) -> dict[str, Any]:
    output = item.get("output")
    if isinstance(output, list):
        output = [_part(part, f"{where}.output[{n}]") for n, part in enumerate(output)]
    elif not isinstance(output, str):
        raise InvalidRequest(f"{where} has no output", param=f"{where}.output")
    return {"role": "tool", "tool_call_id": item.get("call_id"), "content": output}

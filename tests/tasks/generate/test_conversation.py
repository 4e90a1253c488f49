import json
from typing import Any

import msgspec
import pytest

from shoal.errors import InvalidItem
from shoal.tasks.generate.conversation import read_conversation

USER = {"role": "user", "content": "hi"}


def read(*messages: Any) -> list[dict[str, Any]]:
    raw = json.dumps({"messages": messages}).encode()
    return read_conversation(raw, "json").messages


def test_messages_are_as_they_came() -> None:
    system = {"role": "system", "content": "Be brief."}
    assert read(system, USER) == [system, USER]
    packed = msgspec.msgpack.encode({"messages": [USER]})
    assert read_conversation(packed, "msgpack").messages == [USER]


def test_what_is_null_is_left_out_and_arguments_are_read() -> None:
    function = {"name": "weather", "arguments": '{"city": "Ulm"}'}
    call = {"id": "1", "type": "function", "function": function}
    (_, message) = read(USER, {"role": "assistant", "content": None, "tool_calls": [call]})
    assert "content" not in message
    assert message["tool_calls"][0]["function"]["arguments"] == {"city": "Ulm"}


def test_what_was_thought_has_the_names_that_templates_look_for() -> None:
    (message,) = read({"role": "assistant", "content": "Yes.", "reasoning": "hm"})
    assert message["reasoning_content"] == message["thinking"] == "hm"


def test_parts_are_texts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
    (message,) = read({"role": "user", "content": parts})
    assert message["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "has no messages"),
        (["hi"], r"messages\[0\] must be a map"),
        ([USER, {"content": "a"}], r"messages\[1\] has no role"),
        ([{"role": "user"}], r"messages\[0\] has no content"),
        ([{"role": "user", "content": 3}], r"messages\[0\].content must be a text, or a list"),
        (
            [{"role": "user", "content": [{"type": "text"}]}],
            r"messages\[0\].content\[0\] is of type 'text' and no text",
        ),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}],
            r"messages\[0\].content\[0\] is an image, and this model's conversations are of text",
        ),
        ([{"role": "assistant", "tool_calls": [{"id": "1"}]}], r"tool_calls\[0\] has no function"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}],
            r"messages\[0\].tool_calls\[0\].function.arguments is no JSON",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(messages: list[Any], why: str) -> None:
    with pytest.raises(InvalidItem, match=why):
        read(*messages)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'"hi"', "Expected `object`"),
        (b'{"text": "hi"}', "has 'text' beside its messages"),
        (b'{"messages": "hi"}', "has no list of messages"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "not valid Unicode"),
        (b'{"messages": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_conversation(raw: bytes, why: str) -> None:
    with pytest.raises(InvalidItem, match=why):
        read_conversation(raw, "json")


def test_what_json_has_not_is_refused() -> None:
    raw = msgspec.msgpack.encode({"messages": [{"role": "user", "content": "a", "x": b"bytes"}]})
    with pytest.raises(InvalidItem, match=r"messages\[0\].x is neither text, number"):
        read_conversation(raw, "msgpack")

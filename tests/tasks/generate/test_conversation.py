import json
from typing import Any

import msgspec
import pytest

from shoal.errors import InvalidItem
from shoal.tasks.generate.conversation import Picture, read_conversation, text_in

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


def test_images_are_taken_out_in_their_order() -> None:
    one = {"type": "image_url", "image_url": {"url": "data:image/png;base64,b25l"}}
    two = {"type": "image", "image": b"two"}
    messages = [
        {"role": "user", "content": [one, {"type": "text", "text": "a"}]},
        {"content": [two], "role": "user"},
    ]
    read = read_conversation(msgspec.msgpack.encode({"messages": messages}), "msgpack")
    assert [part["type"] for m in read.messages for part in m["content"]] == [
        "image",
        "text",
        "image",
    ]
    assert list(read.messages[1]) == ["content", "role"]
    assert read.pictures == (
        Picture(b"one", "messages[0].content[0]"),
        Picture(b"two", "messages[1].content[0]"),
    )


def test_what_a_template_without_parts_is_given() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert text_in(content) == "a\nb"
    assert text_in("c") == "c"


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
            r"content\[0\].image_url must be data:<type>;base64,<data>: nothing is fetched",
        ),
        (
            [{"role": "user", "content": [{"type": "image", "image": "https://a.b/c.png"}]}],
            r"messages\[0\].content\[0\].image holds invalid base64",
        ),
        (
            [{"role": "user", "content": [{"type": "image"}]}],
            r"messages\[0\].content\[0\] has no file: an image is",
        ),
        (
            [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}],
            r"messages\[0\].content\[0\] is sound, and conversations are of text and images",
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

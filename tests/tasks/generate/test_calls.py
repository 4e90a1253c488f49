from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.tasks.generate.answer import Answer, Whole
from shoal.tasks.generate.calls import BareCalls, TaggedCalls, read_call
from shoal.wire.objects import ToolCall

ULM = ToolCall("weather", '{"city": "Ulm"}')
WRITTEN = '{"name": "weather", "arguments": {"city": "Ulm"}}'
TAGGED = f"<tool_call>\n{WRITTEN}\n</tool_call>"


def told(of: Answer, pieces: list[str], *, complete: bool = True) -> tuple[str, Whole]:
    sure = "".join(of.feed(piece) for piece in pieces)
    whole = of.end("", complete=complete)
    assert whole.text.startswith(sure)
    return sure, whole


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (WRITTEN, ULM),
        ('{"name": "weather", "parameters": {"city": "Ulm"}}', ULM),
        ('{"arguments": "{\\"a\\": 1}", "name": "f"}', ToolCall("f", '{"a": 1}')),
        ('{"name": "f"}', ToolCall("f", "{}")),
        (
            '{"name": "f", "arguments": {"a":1.0,  "b":"\\u00fc"}}',
            ToolCall("f", '{"a":1.0,  "b":"\\u00fc"}'),
        ),
        ('{"name": "f", "arguments": [1]}', None),
        ('{"name": "f", "arguments": "no"}', None),
        ('{"name": 1}', None),
        ("{'name': 'f'}", None),
        ("[1]", None),
        ("", None),
    ],
)
def test_a_call_is_json_with_a_name(text: str, call: ToolCall | None) -> None:
    assert read_call(text) == call


@pytest.mark.parametrize(
    ("text", "answer", "calls"),
    [
        ("Let me see.\n" + TAGGED, "Let me see.", [ULM]),
        (TAGGED + "\n" + TAGGED + "\n", "", [ULM, ULM]),
        (TAGGED + "\nDone.", "\nDone.", [ULM]),
        ("a < b <tool> c", "a < b <tool> c", []),
        ("no call \n", "no call \n", []),
        ("x <tool_call>{name: f}</tool_call> y", "x <tool_call>{name: f}</tool_call> y", []),
        ("a <tool_call>oh</tool_call> " + TAGGED, "a <tool_call>oh</tool_call>", [ULM]),
        ("a\n<tool_call>\n" + WRITTEN, "a", [ULM]),
        ("a\n<tool_call>\n{", "a\n<tool_call>\n{", []),
    ],
)
def test_calls_in_tags(text: str, answer: str, calls: list[ToolCall]) -> None:
    for pieces in ([text], list(text)):
        _, whole = told(TaggedCalls(), pieces)
        assert whole == Whole(answer, None, calls)


def test_of_a_call_nothing_is_told_before_it_is_none() -> None:
    of = TaggedCalls()
    assert of.feed("Yes. \n<tool") == "Yes."
    assert of.feed("_call>{") == ""
    assert of.feed("}</tool_call>!") == " \n<tool_call>{}</tool_call>!"


def test_what_was_cut_off_is_no_call() -> None:
    text = "<tool_call>\n" + WRITTEN
    assert told(TaggedCalls(), [text], complete=False)[1] == Whole(text)
    assert told(BareCalls(["weather"]), [WRITTEN], complete=False)[1] == Whole(WRITTEN)


@pytest.mark.parametrize(
    ("text", "answer", "calls"),
    [
        (WRITTEN, "", [ULM]),
        ("\n" + WRITTEN + "; " + WRITTEN, "", [ULM, ULM]),
        (f"[{WRITTEN}, {WRITTEN}]", "", [ULM, ULM]),
        ('{"name": "Ulm", "parameters": {}}', '{"name": "Ulm", "parameters": {}}', []),
        (WRITTEN + " as asked", WRITTEN + " as asked", []),
        ("Here: " + WRITTEN, "Here: " + WRITTEN, []),
        ("[1, 2", "[1, 2", []),
        (" ", " ", []),
    ],
)
def test_bare_calls(text: str, answer: str, calls: list[ToolCall]) -> None:
    for pieces in ([text], list(text)):
        _, whole = told(BareCalls(["weather"]), pieces)
        assert whole == Whole(answer, None, calls)


parts = st.sampled_from(["<tool_call>", "</tool_call>", WRITTEN, "<tool", " ", "\n", "a", "{"])


@given(st.lists(parts, max_size=10), st.booleans())
def test_pieces_change_nothing(pieces: list[str], complete: bool) -> None:
    text = "".join(pieces)
    for made in (TaggedCalls, lambda: BareCalls(["weather"])):
        whole = told(made(), [text], complete=complete)[1]
        assert told(made(), pieces, complete=complete)[1] == whole
        assert told(made(), list(text), complete=complete)[1] == whole


@pytest.mark.parametrize(
    "text", ["[" * 5000, "{" * 5000, '[{"a":' * 3000, "<tool_call>" + "[" * 5000]
)
@pytest.mark.parametrize("of", [TaggedCalls, lambda: BareCalls({"f"})])
def test_what_is_nested_without_end_is_text(text: str, of: Callable[[], Answer]) -> None:
    assert told(of(), [text])[1] == Whole(text)

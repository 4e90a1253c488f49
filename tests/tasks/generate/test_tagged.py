import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.tasks.generate.answer import Called, Said
from shoal.tasks.generate.tagged import TaggedCalls
from shoal.wire.objects import ToolCall
from tests.tasks.generate.told import deltas, parted, told

ULM = ToolCall("weather", '{"city": "Ulm"}')
WRITTEN = '{"name": "weather", "arguments": {"city": "Ulm"}}'
TAGGED = f"<tool_call>\n{WRITTEN}\n</tool_call>"
LAST = '{"arguments": {"city": "Ulm"}, "name": "weather"}'


@pytest.mark.parametrize(
    ("text", "answer", "calls"),
    [
        ("Let me see.\n" + TAGGED, "Let me see.", [ULM]),
        (TAGGED + "\n" + TAGGED + "\n", "", [ULM, ULM]),
        (TAGGED + "\nDone.", "\nDone.", [ULM]),
        (f"<tool_call>{LAST}</tool_call>", "", [ULM]),
        (f"a\n<tool_call>{LAST}", "a", [ULM]),
        ("a < b <tool> c", "a < b <tool> c", []),
        ("no call \n", "no call \n", []),
        ("x <tool_call>{name: f}</tool_call> y", "x <tool_call>{name: f}</tool_call> y", []),
        ("a <tool_call>oh</tool_call> " + TAGGED, "a <tool_call>oh</tool_call>", [ULM]),
        ("a\n<tool_call>\n" + WRITTEN, "a", [ULM]),
        ("a\n<tool_call>\n{", "a\n<tool_call>\n{", []),
        # What stands in the tags behind the call is none of the text; what stands behind them is.
        (TAGGED.replace("}}", '}, "id": "1"} }'), "", [ULM]),
        (f"<tool_call>{WRITTEN} Well.</tool_call> Done.", " Done.", [ULM]),
        (f"<tool_call>{WRITTEN}\nDone. \n", "\nDone.", [ULM]),
        (f"<tool_call>{WRITTEN}\n</tool", "", [ULM]),
        (f"<tool_call>{WRITTEN} or {TAGGED}", " or", [ULM, ULM]),
        # A tag in a string is the string's.
        (
            TAGGED.replace("Ulm", "</tool_call>"),
            "",
            [ToolCall("weather", '{"city": "</tool_call>"}')],
        ),
    ],
)
def test_calls_in_tags(text: str, answer: str, calls: list[ToolCall]) -> None:
    for pieces in ([text], list(text)):
        assert told(TaggedCalls(), pieces) == (answer, None, calls)


@pytest.mark.parametrize(
    ("arguments", "behind"),
    [
        ('{"city": Ulm}', "}\n</tool_call>"),
        ('{"city": "Ulm"', "</tool_call>"),
        ('{"city": "Ulm}\n', "</tool_call>"),
        ('{"city": {"a": <b>', "</tool_call>"),
        ('{"city": "Ul', ""),
        ("{", ""),
    ],
)
@pytest.mark.parametrize("complete", [True, False])
def test_from_its_arguments_on_a_call_is_one_whatever_the_model_writes(
    arguments: str, behind: str, complete: bool
) -> None:
    text = f'a <tool_call>{{"name": "f", "arguments": {arguments}{behind}'
    for pieces in ([text], list(text)):
        found = told(TaggedCalls(), pieces, complete=complete)
        assert found == ("a", None, [ToolCall("f", arguments)])


def test_a_call_is_told_as_it_comes() -> None:
    of = TaggedCalls()
    assert of.feed("Yes. \n<tool") == [Said("Yes.")]
    assert of.feed('_call>\n{"name": "wea') == []
    assert of.feed('ther", "arguments": ') == []
    assert of.feed('{"ci') == [Called(0, "weather", ""), Called(0, None, '{"ci')]
    assert of.feed('ty": "Ulm') == [Called(0, None, 'ty": "Ulm')]
    assert of.feed('"}}\n</tool') == [Called(0, None, '"}')]
    assert of.feed('_call>\n<tool_call>{"name": "g", "parameters": {}}</') == [
        Called(1, "g", ""),
        Called(1, None, "{}"),
    ]
    assert of.end("tool_call>", complete=True) == []


def test_what_is_no_call_is_told_whole_with_the_blanks_before() -> None:
    of = TaggedCalls()
    assert of.feed("Yes. \n<tool") == [Said("Yes.")]
    assert of.feed("_call>{") == []
    assert of.feed("}</tool_call>!") == [Said(" \n<tool_call>{}</tool_call>"), Said("!")]


def test_what_was_cut_off_before_its_arguments_is_no_call() -> None:
    for text in (f"<tool_call>\n{LAST}", '<tool_call>{"name": "f", "arguments": '):
        assert told(TaggedCalls(), [text], complete=False) == (text, None, [])


parts = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", TAGGED, WRITTEN, LAST),
        *('{"name": "f", "arguments": ', '{"name": "a</tool_call>b", "arguments": {}}'),
        *("<tool", " ", "\n", "a", "{", "}", '"', "\\", "<", ","),
    ]
)


@given(st.lists(parts, max_size=10), st.lists(st.integers(0, 999), max_size=8), st.booleans())
def test_pieces_change_nothing(said: list[str], cuts: list[int], complete: bool) -> None:
    text = "".join(said)
    whole = told(TaggedCalls(), [text], complete=complete)
    for pieces in (said, list(text), parted(text, cuts)):
        assert told(TaggedCalls(), pieces, complete=complete) == whole


@given(st.lists(parts, max_size=10), st.booleans())
def test_calls_come_one_after_the_other(said: list[str], complete: bool) -> None:
    begun = -1
    for delta in deltas(TaggedCalls(), said, complete=complete):
        assert delta.text or isinstance(delta, Called)
        if isinstance(delta, Called):
            begun += delta.name is not None
            assert delta.index == begun


def test_what_is_nested_without_end_is_text() -> None:
    text = "<tool_call>" + "[" * 5000
    assert told(TaggedCalls(), [text]) == (text, None, [])

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.tasks.generate.answer import Called, Said
from shoal.tasks.generate.bare import BareCalls
from shoal.wire.objects import ToolCall
from tests.tasks.generate.test_tagged import LAST, ULM, WRITTEN
from tests.tasks.generate.told import Told, parted, told

OTHER = '{"name": "Ulm", "parameters": {}}'


def heard(pieces: list[str], *, complete: bool = True) -> Told:
    return told(BareCalls(["weather"]), pieces, complete=complete)


@pytest.mark.parametrize(
    ("text", "answer", "calls"),
    [
        (WRITTEN, "", [ULM]),
        (LAST, "", [ULM]),
        ("\n" + WRITTEN + "; " + WRITTEN, "", [ULM, ULM]),
        (f"[{WRITTEN}, {LAST}]\n", "", [ULM, ULM]),
        ('{"name": "weather"}', "", [ToolCall("weather", "{}")]),
        (WRITTEN.replace("}}", '}, "id": [{}]}'), "", [ULM]),
        # What follows calls is text.
        (WRITTEN + " as asked", "as asked", [ULM]),
        (LAST + " as asked", "as asked", [ULM]),
        (f"{WRITTEN}\n{OTHER}", OTHER, [ULM]),
        # So is all, where the first is none.
        (OTHER, OTHER, []),
        ('\n{"name": 1} ' + WRITTEN, '\n{"name": 1} ' + WRITTEN, []),
        (f"[{OTHER}, {WRITTEN}]", f"[{OTHER}, {WRITTEN}]", []),
        ("Here: " + WRITTEN, "Here: " + WRITTEN, []),
        ("[1, 2", "[1, 2", []),
        ("[ ", "[ ", []),
        ('[{"name": "weather', '[{"name": "weather', []),
        (" ", " ", []),
    ],
)
def test_bare_calls(text: str, answer: str, calls: list[ToolCall]) -> None:
    for pieces in ([text], list(text)):
        assert heard(pieces) == (answer, None, calls)


@pytest.mark.parametrize("arguments", ["{", '{"city": "Ul', '{"city": Ulm}', '{"a": {"b": 1}'])
def test_from_its_arguments_on_a_call_is_one_whatever_the_model_writes(arguments: str) -> None:
    text = f'{{"name": "weather", "parameters": {arguments}'
    for complete in (True, False):
        assert heard(list(text), complete=complete) == ("", None, [ToolCall("weather", arguments)])


def test_a_call_is_told_as_it_comes() -> None:
    of = BareCalls(["weather"])
    assert of.feed('[\n{"name": "weather", "parameters": ') == []
    assert of.feed('{"ci') == [Called(0, "weather", ""), Called(0, None, '{"ci')]
    assert of.feed('ty": 1}}, {"na') == [Called(0, None, 'ty": 1}')]
    assert of.feed('me": "weather"}]') == [Called(1, "weather", "{}")]
    assert of.end(" So.", complete=True) == [Said("So.")]


def test_an_object_that_is_no_call_is_told_when_that_is_clear() -> None:
    of = BareCalls(["weather"])
    assert of.feed('\n{"name": "Ulm", "arguments": ') == []
    assert of.feed("{") == [Said('\n{"name": "Ulm", "arguments": {')]
    assert of.feed("}") == [Said("}")]


parts = st.sampled_from([WRITTEN, LAST, OTHER, "[", "]", ",", ";", " ", "\n", "a", *'{}"\\'])


@given(st.lists(parts, max_size=10), st.lists(st.integers(0, 999), max_size=8), st.booleans())
def test_pieces_change_nothing(said: list[str], cuts: list[int], complete: bool) -> None:
    text = "".join(said)
    whole = heard([text], complete=complete)
    for pieces in (said, list(text), parted(text, cuts)):
        assert heard(pieces, complete=complete) == whole


@pytest.mark.parametrize("text", ["[" * 5000, "{" * 5000, '[{"a":' * 3000])
def test_what_is_nested_without_end_is_text(text: str) -> None:
    assert heard([text]) == (text, None, [])

from hypothesis import given

from shoal.tasks.generate.answer import Called, Delta, Plain, Said, Thought, Whole, coalesced
from shoal.wire.objects import ToolCall
from tests.gateway.compat.told import written
from tests.tasks.generate.told import told

WRITTEN: list[Delta] = [
    *(Thought("a"), Thought("b"), Said("c"), Said("d")),
    *(Called(0, "f", "{"), Called(0, None, "}"), Called(1, "f", "{}"), Said("e")),
]


def test_a_whole_is_its_deltas_joined() -> None:
    whole = Whole()
    whole.add(WRITTEN)
    calls = [ToolCall("f", "{}"), ToolCall("f", "{}")]
    assert (whole.text, whole.reasoning, whole.calls) == ("cde", "ab", calls)
    assert Whole().reasoning is None


def test_what_goes_on_is_joined_to_what_is_before() -> None:
    assert coalesced(WRITTEN) == [
        *(Thought("ab"), Said("cd")),
        *(Called(0, "f", "{}"), Called(1, "f", "{}"), Said("e")),
    ]


@given(written())
def test_joined_or_not_they_say_the_same(deltas: list[Delta]) -> None:
    whole, joined = Whole(), Whole()
    whole.add(deltas)
    joined.add(coalesced(deltas))
    assert (whole.text, whole.reasoning, whole.calls) == (
        joined.text,
        joined.reasoning,
        joined.calls,
    )


def test_a_plain_text_is_told_as_it_is() -> None:
    assert told(Plain(), ["<think>", "", "a</think>"]) == ("<think>a</think>", None, [])
    assert Plain().feed("") == []

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.tasks.generate.answer import Plain, Said, Thought
from shoal.tasks.generate.reasoning import Reasoned
from tests.tasks.generate.told import Told, told

TAGS = ("<think>", "</think>")


def heard(pieces: list[str], *, inside: bool = False) -> Told:
    return told(Reasoned(TAGS, Plain(), inside=inside), pieces)


@pytest.mark.parametrize(
    ("text", "inside", "answer", "reasoning"),
    [
        ("<think>\nhm\n</think>\n\nYes.", False, "Yes.", "hm"),
        ("\n<think>hm</think> Yes. ", False, "Yes. ", "hm"),
        ("hm\n</think>\n\nYes.", True, "Yes.", "hm"),
        ("<think>\n\n</think>\n\nYes.", False, "Yes.", None),
        (" Yes <think>no</think>", False, " Yes <think>no</think>", None),
        ("<think>a < b \n\n c</think>", False, "", "a < b \n\n c"),
        ("<thin air", False, "<thin air", None),
        ("<thi", False, "<thi", None),
        ("", False, "", None),
        ("<think>hm, and", False, "", "hm, and"),
        ("<think> hm, and \n", False, "", "hm, and"),
        ("hm </think", True, "", "hm </think"),
    ],
)
def test_what_is_thought_is_told_apart(
    text: str, inside: bool, answer: str, reasoning: str | None
) -> None:
    for pieces in ([text], list(text)):
        assert heard(pieces, inside=inside) == (answer, reasoning, [])


def test_it_is_told_as_it_comes_without_blanks_and_tags() -> None:
    of = Reasoned(TAGS, Plain(), inside=False)
    assert of.feed("\n<thi") == []
    assert of.feed("nk> \nWell") == [Thought("Well")]
    assert of.feed(", \n") == [Thought(",")]
    assert of.feed("no.\n</th") == [Thought(" \nno.")]
    assert of.feed("ink>\n\nYes") == [Said("Yes")]
    assert of.end("!", complete=True) == [Said("!")]


parts = st.sampled_from(["<think>", "</think>", "<", "th", " ", "a", "\n"])


@given(st.lists(parts, max_size=12), st.booleans())
def test_pieces_change_nothing(pieces: list[str], inside: bool) -> None:
    whole = heard(["".join(pieces)], inside=inside)
    assert heard(pieces, inside=inside) == whole
    assert heard(list("".join(pieces)), inside=inside) == whole

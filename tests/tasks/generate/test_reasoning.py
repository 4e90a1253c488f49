import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.tasks.generate.answer import Plain, Whole
from shoal.tasks.generate.reasoning import Reasoned

TAGS = ("<think>", "</think>")


def told(pieces: list[str], *, inside: bool = False) -> tuple[str, Whole]:
    of = Reasoned(TAGS, Plain(), inside=inside)
    sure = "".join(of.feed(piece) for piece in pieces)
    return sure, of.end("", complete=True)


@pytest.mark.parametrize(
    ("text", "inside", "answer", "reasoning"),
    [
        ("<think>\nhm\n</think>\n\nYes.", False, "Yes.", "hm"),
        ("\n<think>hm</think> Yes. ", False, "Yes. ", "hm"),
        ("hm\n</think>\n\nYes.", True, "Yes.", "hm"),
        ("<think>\n\n</think>\n\nYes.", False, "Yes.", None),
        (" Yes <think>no</think>", False, " Yes <think>no</think>", None),
        ("<thin air", False, "<thin air", None),
        ("<thi", False, "<thi", None),
        ("", False, "", None),
        ("<think>hm, and", False, "", "hm, and"),
        ("hm </think", True, "", "hm </think"),
    ],
)
def test_what_is_thought_is_told_apart(
    text: str, inside: bool, answer: str, reasoning: str | None
) -> None:
    for pieces in ([text], list(text)):
        sure, whole = told(pieces, inside=inside)
        assert (whole.text, whole.reasoning) == (answer, reasoning)
        assert answer.startswith(sure)


parts = st.sampled_from(["<think>", "</think>", "<", "th", " ", "a", "\n"])


@given(st.lists(parts, max_size=12), st.booleans())
def test_pieces_change_nothing(pieces: list[str], inside: bool) -> None:
    whole = told(["".join(pieces)], inside=inside)[1]
    assert told(pieces, inside=inside)[1] == whole
    assert told(list("".join(pieces)), inside=inside)[1] == whole

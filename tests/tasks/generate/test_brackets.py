import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.tasks.generate.brackets import Brackets
from tests.tasks.generate.told import parted

MARK = "</end>"


def read(text: str, pieces: list[str], mark: str = MARK) -> tuple[str, str]:
    """What of it is the object's, and how it ends."""
    of, held, taken = Brackets(mark), "", ""
    for piece in pieces:
        held += piece
        end, how = of.feed(held)
        taken, held = taken + held[:end], held[end:]
        if how != "open":
            return taken, how
    return taken, "open"


@pytest.mark.parametrize(
    ("text", "taken", "how"),
    [
        ('{"a": [1, {}]} rest', '{"a": [1, {}]}', "closed"),
        ('{"a": "}"}', '{"a": "}"}', "closed"),
        ('{"a": "\\"}"} ', '{"a": "\\"}"}', "closed"),
        ('{"a": "\\\\"} ', '{"a": "\\\\"}', "closed"),
        ('{"a": 1</end>', '{"a": 1', "marked"),
        ('{"a": "</end>"}', '{"a": "</end>"}', "closed"),
        ('{"a": "b}\n</end>', '{"a": "b}\n', "marked"),
        ('{"a": <b></en', '{"a": <b>', "open"),
        ("{oh}", "{oh}", "closed"),
        ("", "", "open"),
    ],
)
def test_an_object_ends_with_its_brackets_or_at_the_mark(text: str, taken: str, how: str) -> None:
    assert read(text, [text]) == read(text, list(text)) == (taken, how)


parts = st.sampled_from([*'{}[]"\\\n<a', MARK, "</", "end>"])


@given(st.lists(parts, max_size=20), st.lists(st.integers(0, 200), max_size=6))
def test_pieces_change_nothing(said: list[str], cuts: list[int]) -> None:
    text = "{" + "".join(said)
    assert read(text, parted(text, cuts)) == read(text, [text]) == read(text, list(text))


def test_without_a_mark_there_is_none() -> None:
    assert read("", ["{<", "/end>}"], mark="") == ("{</end>}", "closed")

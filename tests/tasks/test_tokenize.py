import msgspec
import pytest

from shoal.tasks.tokenize import Piece, told_of_ids, told_of_text
from shoal.wire.objects import Token, Tokenized


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [("in Bonn", (0, 2), (3, 7)), ("für 𝄞 ab", (0, 4), (5, 9)), ("日本 x", (0, 6), (7, 8))],
)
def test_tokens_lie_where_their_bytes_do(
    text: str, first: tuple[int, int], second: tuple[int, int]
) -> None:
    words = text.split(" ")
    start = len(words[0]) + 1
    pieces = [
        Piece(101, "[CLS]", True, 0, 0),
        Piece(7, "x", False, 0, len(words[0])),
        Piece(8, "y", False, start, start + len(words[1])),
    ]
    told = msgspec.msgpack.decode(told_of_text(text, pieces), type=Tokenized).tokens
    assert told == [
        Token(101, "[CLS]", True, None, None),
        Token(7, words[0], False, *first),
        Token(8, words[1], False, *second),
    ]
    raw = text.encode()
    assert [raw[t.start : t.stop].decode() for t in told[1:]] == words[:2]


def test_ids_are_a_text() -> None:
    assert msgspec.msgpack.decode(told_of_ids("")) == {"text": ""}

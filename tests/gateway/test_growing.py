from __future__ import annotations

import msgspec
import pytest

from shoal.errors import ProtocolError, StreamBroken
from shoal.gateway.growing import Growing, read_generation
from shoal.wire.objects import Generation, TokenLogprob
from shoal.wire.queue import Piece
from tests.gateway.writing import token


def piece(text: str, at: int, told: list[TokenLogprob] | None = None, told_at: int = 0) -> Piece:
    packed = msgspec.msgpack.encode(told) if told else b""
    return Piece("u.0", "w", 0, at, text, packed, told_at)


def whole(text: str, told: list[TokenLogprob] | None = None) -> Generation:
    return Generation(text, "stop", 3, 4, logprobs=told)


def test_pieces_follow_one_another_and_the_whole_brings_the_rest() -> None:
    growing = Growing()
    assert growing.add(piece("Once ", 0))
    assert growing.taken() == ("Once ", [])
    assert growing.add(piece("upon ", 5))
    assert growing.add(piece("a ", 10))
    assert growing.taken() == ("upon a ", [])
    growing.close(whole("Once upon a time"))
    assert growing.taken() == ("time", [])


def test_places_count_characters_not_bytes() -> None:
    growing = Growing()
    assert growing.add(piece("Grüße 🐟", 0))
    assert growing.add(piece("!", 7))
    growing.close(whole("Grüße 🐟!"))
    assert growing.taken() == ("Grüße 🐟!", [])


def test_after_a_lost_piece_the_whole_makes_it_good() -> None:
    growing = Growing()
    growing.add(piece("Once ", 0))
    assert not growing.add(piece("a ", 10))  # "upon " is lost
    assert not growing.add(piece("time", 12))
    assert growing.taken() == ("Once ", [])
    growing.close(whole("Once upon a time"))
    assert growing.taken() == ("upon a time", [])


@pytest.mark.parametrize(
    ("again", "brings"),
    [
        (piece("Once ", 0), ""),
        (piece("On", 0), ""),
        (piece("upon", 5), "upon"),
        (piece("Once upon", 0), "upon"),
        (piece("ce u", 2), "u"),
        (piece("", 5), ""),
    ],
)
def test_two_workers_that_say_the_same_are_one(again: Piece, brings: str) -> None:
    growing = Growing()
    growing.add(piece("Once ", 0))
    growing.taken()
    assert growing.add(again) is bool(brings)
    assert growing.taken() == (brings, [])


@pytest.mark.parametrize("other", [piece("Twice", 0), piece("Once a", 0), piece("e!", 3)])
def test_what_another_worker_says_otherwise_is_not_mixed_in(other: Piece) -> None:
    growing = Growing()
    growing.add(piece("Once upon", 0))
    growing.taken()
    assert not growing.add(other)
    growing.close(whole("Once upon a time"))
    assert growing.taken() == (" a time", [])


@pytest.mark.parametrize("text", ["Twice upon a time", "Once", "Once open", ""])
def test_a_whole_that_does_not_begin_with_what_came_breaks_the_stream(text: str) -> None:
    growing = Growing()
    growing.add(piece("Once up", 0))
    with pytest.raises(StreamBroken, match="void"):
        growing.close(whole(text))


def test_what_is_told_of_tokens_merges_as_texts_do() -> None:
    growing = Growing()
    once, up, on = token("Once"), token(" up"), token("on")
    assert growing.add(piece("Once", 0, [once]))
    assert growing.add(piece("Once up", 0, [token("Once", -0.50001), up]))
    assert growing.taken() == ("Once up", [once, up])
    assert not growing.add(piece("on", 7, [on], told_at=3))
    growing.close(whole("Once upon", [once, up, on]))
    assert growing.taken() == ("on", [on])


def test_half_a_character_is_told_before_it_has_a_text() -> None:
    growing = Growing()
    half = TokenLogprob("", b"\xf0\x9f", -1.0)
    assert growing.add(piece("", 0, [half]))
    assert growing.taken() == ("", [half])


def test_a_whole_whose_tokens_are_others_breaks_the_stream() -> None:
    growing = Growing()
    growing.add(piece("Once", 0, [token("Once")]))
    with pytest.raises(StreamBroken):
        growing.close(whole("Once", [token("On"), token("ce")]))
    other = Growing()
    other.add(piece("Once", 0, [token("On"), token("ce")]))
    with pytest.raises(StreamBroken):
        other.close(whole("Once", [token("On")]))


@pytest.mark.parametrize("told", [b"\x01", b"\x91\x01", b"\xc1"])
def test_what_is_no_list_of_tokens_is_a_protocol_error(told: bytes) -> None:
    with pytest.raises(ProtocolError):
        Growing().add(Piece("u.0", "w", 0, 0, "a", told))


@pytest.mark.parametrize("told", [b"", b"\x01", b"\x81\xa4text\x01"])
def test_what_is_no_generation_is_a_protocol_error(told: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_generation(told)

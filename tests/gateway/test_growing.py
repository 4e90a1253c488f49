from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.errors import ProtocolError, StreamBroken
from shoal.gateway.growing import Growing, read_generation
from shoal.tasks.generate.answer import Called, Said, Thought, said
from shoal.wire.objects import Generation, TokenLogprob, ToolCall
from shoal.wire.queue import CallPart, Piece
from tests.gateway.writing import token


def piece(text: str, at: int, told: list[TokenLogprob] | None = None, told_at: int = 0) -> Piece:
    packed = msgspec.msgpack.encode(told) if told else b""
    return Piece("u.0", "w", 0, at, text, packed, told_at)


def whole(text: str, told: list[TokenLogprob] | None = None, **more: Any) -> Generation:
    return Generation(text, "stop", 3, 4, logprobs=told, **more)


def thought(text: str, at: int) -> Piece:
    return Piece("u.0", "w", 0, 0, "", reasoning=text, reasoning_at=at)


def called(index: int, name: str | None, text: str, call_at: int, at: int = 0) -> Piece:
    call = CallPart(index, name, text)
    return Piece("u.0", "w", 0, at, "", reasoning_at=3, call=call, call_at=call_at)


def test_pieces_follow_one_another_and_the_whole_brings_the_rest() -> None:
    growing = Growing()
    assert growing.add(piece("Once ", 0))
    assert growing.taken() == (said("Once "), [])
    assert growing.add(piece("upon ", 5))
    assert growing.add(piece("a ", 10))
    assert growing.taken() == (said("upon a "), [])
    growing.close(whole("Once upon a time"))
    assert growing.taken() == (said("time"), [])


def test_places_count_characters_not_bytes() -> None:
    growing = Growing()
    assert growing.add(piece("Grüße 🐟", 0))
    assert growing.add(piece("!", 7))
    growing.close(whole("Grüße 🐟!"))
    assert growing.taken() == (said("Grüße 🐟!"), [])


def test_after_a_lost_piece_the_whole_makes_it_good() -> None:
    growing = Growing()
    growing.add(piece("Once ", 0))
    assert not growing.add(piece("a ", 10))  # "upon " is lost
    assert not growing.add(piece("time", 12))
    assert growing.taken() == (said("Once "), [])
    growing.close(whole("Once upon a time"))
    assert growing.taken() == (said("upon a time"), [])


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
    assert growing.taken() == (said(brings), [])


@pytest.mark.parametrize("other", [piece("Twice", 0), piece("Once a", 0), piece("e!", 3)])
def test_what_another_worker_says_otherwise_is_not_mixed_in(other: Piece) -> None:
    growing = Growing()
    growing.add(piece("Once upon", 0))
    growing.taken()
    assert not growing.add(other)
    growing.close(whole("Once upon a time"))
    assert growing.taken() == (said(" a time"), [])


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
    assert growing.taken() == (said("Once up"), [once, up])
    assert not growing.add(piece("on", 7, [on], told_at=3))
    growing.close(whole("Once upon", [once, up, on]))
    assert growing.taken() == (said("on"), [on])


def test_half_a_character_is_told_before_it_has_a_text() -> None:
    growing = Growing()
    half = TokenLogprob("", b"\xf0\x9f", -1.0)
    assert growing.add(piece("", 0, [half]))
    assert growing.taken() == (said(""), [half])


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


# --- reasoning and calls --------------------------------------------------------------------------

CALLS = [ToolCall("rain", '{"in": "Ulm"}'), ToolCall("sun", "{}")]


def begun() -> Growing:
    """One that thought, said something and begins to call."""
    growing = Growing()
    assert growing.add(thought("Hm.", 0))
    assert growing.add(Piece("u.0", "w", 0, 0, "Well", reasoning_at=3))
    assert growing.add(called(0, "rain", '{"in', 0, at=4))
    return growing


def test_what_is_told_apart_comes_in_its_order() -> None:
    growing = begun()
    assert growing.taken() == ([Thought("Hm."), Said("Well"), Called(0, "rain", '{"in')], [])
    growing.add(called(0, None, '": "', 4, at=4))
    growing.add(called(0, None, 'Ulm"}', 8, at=4))
    growing.add(called(1, "sun", "{}", 13, at=4))
    assert growing.taken() == ([Called(0, None, '": "Ulm"}'), Called(1, "sun", "{}")], [])
    growing.close(whole("Well", reasoning="Hm.", tool_calls=CALLS))
    assert growing.taken() == ([], [])


def test_the_whole_brings_what_is_missing_and_ends_what_was_begun_first() -> None:
    growing = begun()
    growing.taken()
    growing.close(whole("Well.", reasoning="Hm.", tool_calls=CALLS))
    assert growing.taken() == (
        [Called(0, None, '": "Ulm"}'), Said("."), Called(1, "sun", "{}")],
        [],
    )
    nothing = Growing()
    nothing.close(whole("Well", reasoning="Hm.", tool_calls=CALLS))
    assert nothing.taken() == (
        [Thought("Hm."), Said("Well"), Called(0, "rain", '{"in": "Ulm"}'), Called(1, "sun", "{}")],
        [],
    )


@pytest.mark.parametrize(
    "late",
    [
        thought("more", 4),
        called(0, None, "m", 6, at=4),
        called(1, "sun", "{}", 13, at=4),
        called(1, None, "{}", 4, at=4),
        called(2, "sun", "{}", 4, at=4),
        called(0, None, '": "', 4, at=5),
        Piece("u.0", "w", 0, 4, "!", reasoning_at=3, call_at=13),
        Piece("u.0", "w", 0, 4, "!", reasoning_at=5, call_at=4),
    ],
)
def test_after_a_lost_piece_nothing_is_taken_out_of_turn(late: Piece) -> None:
    growing = begun()
    growing.taken()
    assert not growing.add(late)
    assert growing.taken() == ([], [])


@pytest.mark.parametrize(
    ("again", "brings"),
    [
        (thought("Hm.", 0), []),
        (called(0, "rain", "{", 0, at=4), []),
        (called(0, "rain", '{"in": ', 0, at=4), [Called(0, None, '": ')]),
        (called(0, None, 'in":', 2, at=4), [Called(0, None, '":')]),
        (called(0, "snow", '{"in":', 0, at=4), []),
        (called(0, None, "on", 2, at=4), []),
        (called(1, "sun", "{", 2, at=4), []),
    ],
)
def test_a_second_worker_repeats_no_call_and_tears_none(again: Piece, brings: list[Called]) -> None:
    growing = begun()
    growing.taken()
    assert growing.add(again) is bool(brings)
    assert growing.taken() == (brings, [])


def test_a_call_that_ended_grows_no_more() -> None:
    growing = begun()
    growing.add(called(0, None, '": "Ulm"}', 4, at=4))
    growing.add(called(1, "sun", "{", 13, at=4))
    growing.taken()
    assert not growing.add(called(0, None, '"}!', 11, at=4))
    assert growing.add(called(1, "sun", "{}", 13, at=4))
    assert growing.taken() == ([Called(1, None, "}")], [])


@pytest.mark.parametrize(
    "other",
    [
        {"reasoning": "Hm"},
        {"reasoning": "Hum."},
        {"reasoning": None},
        {"tool_calls": []},
        {"tool_calls": [ToolCall("snow", '{"in": "Ulm"}')]},
        {"tool_calls": [ToolCall("rain", '{"on": "Ulm"}')]},
        {"tool_calls": [ToolCall("rain", '{"i')]},
    ],
)
def test_a_whole_that_thinks_or_calls_otherwise_breaks_the_stream(other: dict[str, Any]) -> None:
    growing = begun()
    with pytest.raises(StreamBroken, match="void"):
        growing.close(whole("Well", **({"reasoning": "Hm.", "tool_calls": CALLS} | other)))
